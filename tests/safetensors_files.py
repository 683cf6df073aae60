# SPDX-License-Identifier: Apache-2.0
"""Safetensors files and small floats, read and written with nothing but the standard library."""

import json
import math
import struct


def bf16_bits(value):
    """Of a float, rounded to nearest even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def bf16_value(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def encode(values, dtype):
    if dtype == "BF16":
        return struct.pack(f"<{len(values)}H", *map(bf16_bits, values))
    return struct.pack(f"<{len(values)}{'f' if dtype == 'F32' else 'e'}", *values)


def decode(data, dtype):
    if dtype == "BF16":
        return [bf16_value(bits) for bits in struct.unpack(f"<{len(data) // 2}H", data)]
    code, size = {"F32": ("f", 4), "F16": ("e", 2)}[dtype]
    return list(struct.unpack(f"<{len(data) // size}{code}", data))


def write_tensors(path, tensors):
    """tensors: name to (dtype, shape, values)."""
    header, body = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        assert len(values) == math.prod(shape), name
        data = encode(values, dtype)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def read_tensors(path):
    """name to (dtype, shape, values)."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        body = file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = (entry["dtype"], tuple(entry["shape"]), decode(body[begin:end], entry["dtype"]))
    return tensors
