# SPDX-License-Identifier: Apache-2.0
"""A GGUF file, read whole with nothing but the standard library: every key, every tensor as floats."""

import math
import struct

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
TYPE_NAMES = {0: "F32", 1: "F16", 8: "Q8_0", 30: "BF16"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError(f"the file ends at {len(self.data)}, within what begins at {self.at}")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self):
        return self.take(self.number("Q")).decode("utf-8")

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            item_kind, count = self.number("I"), self.number("Q")
            return [self.value(item_kind) for _ in range(count)]
        return self.number(SCALARS[kind])


def floats(data, kind):
    """As ggml reads them."""
    if kind == "F32":
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    if kind == "F16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    if kind == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[at:at + 2])[0] for at in range(0, len(data), 2)]
    values = []
    for at in range(0, len(data), 34):
        scale = struct.unpack_from("<e", data, at)[0]
        values += [scale * whole for whole in struct.unpack_from("<32b", data, at + 2)]
    return values


def read_gguf(path):
    """(keys, tensors): tensors by name as (type, shape row-major, values, raw bytes)."""
    with open(path, "rb") as file:
        reader = Reader(file.read())
    if reader.take(4) != b"GGUF" or reader.number("I") != 3:
        raise ValueError("not GGUF version 3")
    num_tensors, num_keys = reader.number("Q"), reader.number("Q")
    keys, infos = {}, []
    for _ in range(num_keys):
        key = reader.text()
        if key in keys:
            raise ValueError(f"{key} comes twice")
        keys[key] = reader.value(reader.number("I"))
    for _ in range(num_tensors):
        name = reader.text()
        dims = [reader.number("Q") for _ in range(reader.number("I"))]
        infos.append((name, tuple(reversed(dims)), TYPE_NAMES[reader.number("I")], reader.number("Q")))
    alignment = keys.get("general.alignment", 32)
    start = -(-reader.at // alignment) * alignment
    tensors, end = {}, 0
    for name, shape, kind, offset in infos:
        count = math.prod(shape)
        size = {"F32": 4 * count, "F16": 2 * count, "BF16": 2 * count, "Q8_0": count // 32 * 34}[kind]
        if offset != end or name in tensors:  # one behind the other, padded
            raise ValueError(f"{name} is at {offset}; expected at {end}")
        end = -(-(offset + size) // alignment) * alignment
        raw = reader.data[start + offset:start + offset + size]
        if len(raw) != size:
            raise ValueError(f"{name} is cut off")
        tensors[name] = (kind, shape, floats(raw, kind), raw)
    if len(reader.data) != start + end:
        raise ValueError("the file is longer than its tensors")
    return keys, tensors
