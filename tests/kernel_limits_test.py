#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether every kernel of the plug-in can be launched on every architecture, told without a card.

    tests/kernel_limits_test.py PLUGIN LAUNCHES [--architectures 80 86 ...] [--list FILE]

PLUGIN is libsluice_cuda.so: registers, shared memory and launch bounds of its kernels are read from the machine code in
it, for the architectures named (all supported ones), which are all that there must be. LAUNCHES is build/.../kernel_launches_tool, or a
.json file of what it prints: how many threads and how much dynamic shared memory each kernel is launched with, from the
templates that launch them.
Shared memory is held against the limits of every architecture that Sluice supports, registers against those that are
built. --list writes a table. Where the toolkit has cuobjdump, what is read is compared with what that says.
"""
import argparse
import ctypes
import json
import re
import shutil
import struct
import subprocess
import sys

# Shared memory that a block may ask for, its own and dynamic (CUDA C++ programming guide, compute capabilities).
SHARED_BYTES = {80: 166_912, 86: 101_376, 89: 101_376, 90: 232_448, 100: 232_448, 120: 101_376}
REGISTERS_OF_BLOCK = 65_536
REGISTERS_OF_THREAD = 255
THREADS_OF_BLOCK = 1024
WARP = 32
WARP_REGISTERS_UNIT = 256  # a warp's registers are given out in such units

FATBIN_MAGIC = 0xBA55ED50
MACHINE_CODE = 2
FLAG_LZ4, FLAG_ZSTD = 0x2000, 0x8000
ATTRIBUTE_MAX_THREADS = 0x05
ATTRIBUTE_REGISTERS = 0x2F
# From 9.0 on the section of a kernel's shared memory begins with what CUDA keeps for itself, beside a block's limit.
RESERVED_SYMBOL, RESERVED_BYTES = ".nv.reservedSmem.offset0", 1024


class Elf:
    """Sections and symbols of a 64-bit little-endian ELF file."""

    def __init__(self, data):
        if data[:4] != b"\x7fELF":
            raise ValueError("no ELF file")
        self.data = data
        offset, = struct.unpack_from("<Q", data, 0x28)
        size, count, names_idx = struct.unpack_from("<HHH", data, 0x3A)
        raw = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
        names = raw[names_idx]
        self.sections = []
        for name, kind, _, _, at, length, link, info, _, _ in raw:
            self.sections.append((self.text(names[4] + name), kind, at, length, link, info))

    def text(self, at):
        return self.data[at:self.data.index(b"\0", at)].decode()

    def bytes_of(self, wanted):
        for name, _, at, length, _, _ in self.sections:
            if name == wanted:
                return self.data[at:at + length]
        return None

    def symbol_names(self):
        for name, _, at, length, link, _ in self.sections:
            if name == ".symtab":
                strings = self.sections[link][2]
                return [self.text(strings + struct.unpack_from("<I", self.data, at + i)[0])
                        for i in range(0, length, 24)]
        return []


def unpack_zstd(packed, size):
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    to = ctypes.create_string_buffer(size)
    got = library.ZSTD_decompress(to, ctypes.c_size_t(size), bytes(packed), ctypes.c_size_t(len(packed)))
    if got != size:
        raise ValueError("a packed kernel cannot be unpacked")
    return to.raw


def unpack_lz4(packed, size):
    """What toolkits before 12.8 write: one block of LZ4."""
    out = bytearray()
    at = 0

    def length(first):
        nonlocal at
        total, step = first, 255
        while first == 15 and step == 255:
            step = packed[at]
            at += 1
            total += step
        return total

    while len(out) < size:
        token = packed[at]
        at += 1
        literals = length(token >> 4)
        out += packed[at:at + literals]
        at += literals
        if len(out) >= size:
            break
        distance, = struct.unpack_from("<H", packed, at)
        at += 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-distance])
    return bytes(out[:size])


def cubins(fatbin):
    """(architecture, ELF file) of all machine code in the section."""
    at = 0
    while at + 16 <= len(fatbin):
        magic, _, header, size = struct.unpack_from("<IHHQ", fatbin, at)
        if magic != FATBIN_MAGIC:
            at += 8
            continue
        entry = at + header
        end = entry + size
        while entry < end:
            kind, _, entry_header, payload = struct.unpack_from("<HHIQ", fatbin, entry)
            packed_size, = struct.unpack_from("<I", fatbin, entry + 16)
            architecture, = struct.unpack_from("<I", fatbin, entry + 28)
            flags, = struct.unpack_from("<Q", fatbin, entry + 40)
            size_unpacked, = struct.unpack_from("<Q", fatbin, entry + 56)
            body = fatbin[entry + entry_header:entry + entry_header + payload]
            if kind == MACHINE_CODE:
                if flags & FLAG_ZSTD:
                    body = unpack_zstd(body[:packed_size], size_unpacked)
                elif flags & FLAG_LZ4:
                    body = unpack_lz4(body[:packed_size], size_unpacked)
                yield architecture, body
            entry += entry_header + payload
        at = end


def attributes(section):
    """(attribute, value) of a section .nv.info."""
    at = 0
    while at + 4 <= len(section):
        form, attribute = section[at], section[at + 1]
        size, = struct.unpack_from("<H", section, at + 2)
        at += 4
        if form == 4:  # the value follows; else it is those two bytes
            yield attribute, section[at:at + size]
            at += size


def kernels_of(cubin):
    """{name: registers, own shared memory, threads} of the kernels in it; threads: as its launch bounds allow, or None."""
    elf = Elf(cubin)
    symbols = elf.symbol_names()
    reserved = RESERVED_BYTES if RESERVED_SYMBOL in symbols else 0
    registers = {}
    for attribute, value in attributes(elf.bytes_of(".nv.info") or b""):
        if attribute == ATTRIBUTE_REGISTERS:
            symbol, count = struct.unpack("<II", value)
            registers[symbols[symbol]] = count
    found = {}
    for name, _, _, _, _, _ in elf.sections:
        if not name.startswith(".nv.info."):
            continue
        kernel = name[len(".nv.info."):]
        threads = None
        for attribute, value in attributes(elf.bytes_of(name)):
            if attribute == ATTRIBUTE_MAX_THREADS:
                x, y, z = struct.unpack("<III", value[:12])
                threads = x * y * z
        shared = next((length for other, _, _, length, _, _ in elf.sections if other == ".nv.shared." + kernel), 0)
        found[kernel] = {"registers": registers[kernel], "shared": max(0, shared - reserved), "threads": threads}
    return found


def kernels_by_architecture(path):
    with open(path, "rb") as file:
        fatbin = Elf(file.read()).bytes_of(".nv_fatbin")
    if fatbin is None:
        raise ValueError(f"'{path}' has no kernels")
    found = {}
    for architecture, cubin in cubins(fatbin):
        found.setdefault(architecture, {}).update(kernels_of(cubin))
    return found


def short(name):
    text = subprocess.run(["c++filt", name], capture_output=True, text=True, check=False).stdout.strip() or name
    text = re.sub(r"sluice::(cuda::)?|\(anonymous namespace\)::|^void ", "", text)
    text = text[:text.index(">(") + 1] if ">(" in text else re.sub(r"\(.*", "", text)
    source = re.search(r"_GLOBAL__N__[0-9a-f]+_\d+_(\w+?)_cu_[0-9a-f]{8}", name)
    return f"{source[1]}.cu: {text}" if source else text


def check_launch(launch, kernel, architecture, limit):
    """What keeps the launch from being made there, as a list of sentences."""
    wrong = []
    name = short(launch["kernel"])
    shared = kernel["shared"] + launch["dynamic_bytes"]
    if shared > limit:
        wrong.append(f"{name} takes {shared:,} bytes of shared memory, and a block of sm_{architecture} has {limit:,}")
    threads = launch["threads"]
    if threads > THREADS_OF_BLOCK or threads > (kernel["threads"] or THREADS_OF_BLOCK):
        wrong.append(f"{name} is launched with {threads} threads, its launch bounds allow {kernel['threads']}")
    if kernel["registers"] > REGISTERS_OF_THREAD:
        wrong.append(f"{name} takes {kernel['registers']} registers a thread")
    warps = -(-threads // WARP)
    of_warp = -(-kernel["registers"] * WARP // WARP_REGISTERS_UNIT) * WARP_REGISTERS_UNIT
    if warps * of_warp > REGISTERS_OF_BLOCK:
        wrong.append(f"{name} takes {warps * of_warp:,} registers of sm_{architecture} for {threads} threads")
    return wrong


def check(kernels, launches, architectures):
    wrong = []
    if sorted(kernels) != sorted(architectures):
        wrong.append(f"the library has machine code for {sorted(kernels)}, and not for {sorted(architectures)}")
    launched = {}
    for launch in launches:
        launched.setdefault(launch["kernel"], []).append(launch)
    for architecture, of_it in kernels.items():
        for name in of_it:
            if name not in launched and "probe_kernel" not in name:
                wrong.append(f"{short(name)} is not launched through launch.cuh")
        for name in launched:
            if name not in of_it:
                wrong.append(f"{short(name)} is launched, and sm_{architecture} has no machine code of it")
    for architecture, limit in SHARED_BYTES.items():
        # Shared memory is declared, so it is the same on architectures that were not built.
        of_it = kernels.get(architecture) or kernels[max(kernels)]
        for launch in launches:
            least, below = launch["cards"]
            if least <= limit < below and launch["kernel"] in of_it:
                wrong += check_launch(launch, of_it[launch["kernel"]], architecture, limit)
    # Tiles for cards with less leave no card out: those from `least` on have the others.
    for launch in launches:
        least, below = launch["cards"]
        others = [other["cards"] for other in launches if other is not launch]
        if least > 0 and [0, least] not in others:
            wrong.append(f"{short(launch['kernel'])} needs {least:,} bytes, and there is none for cards with less")
        if below < 2**31 - 1 and [below, 2**31 - 1] not in others:
            wrong.append(f"{short(launch['kernel'])} is for less than {below:,} bytes, and there is none for more")
    return wrong


def check_against_cuobjdump(path, kernels):
    tool = shutil.which("cuobjdump") or shutil.which("/usr/local/cuda/bin/cuobjdump")
    if tool is None:
        return []
    text = subprocess.run([tool, "--dump-resource-usage", path], capture_output=True, text=True, check=True).stdout
    wrong = []
    architecture = name = None
    compared = 0
    for line in text.splitlines():
        if match := re.search(r"arch = sm_(\d+)", line):
            architecture = int(match[1])
        elif match := re.search(r"Function (\S+):", line):
            name = match[1]
        elif (match := re.search(r"REG:(\d+).*?SHARED:(\d+)", line)) and name in kernels.get(architecture, {}):
            ours = kernels[architecture][name]
            compared += 1
            if ours["registers"] != int(match[1]) or int(match[2]) - ours["shared"] not in (0, RESERVED_BYTES):
                wrong.append(f"cuobjdump says {match[0]} of {short(name)}, and {ours} was read")
    print(f"compared {compared} kernels with cuobjdump")
    return wrong


def table(kernels, launches):
    """Of each launch: threads of a block, shared memory, registers of a thread on each architecture, and the kernel."""
    columns = " ".join(f"sm_{architecture:<3}" for architecture in sorted(kernels))
    lines = [f"{'threads':>7} {'dynamic':>8} {'own':>6}  {columns}  kernel"]
    for launch in sorted(launches, key=lambda it: (-it["dynamic_bytes"], it["kernel"])):
        of_each = [kernels[a][launch["kernel"]] for a in sorted(kernels)]
        least, below = launch["cards"]
        cards = f", from {least:,} bytes on" if least else f", below {below:,} bytes" if below < 2**31 - 1 else ""
        lines.append(f"{launch['threads']:7} {launch['dynamic_bytes']:8} {of_each[0]['shared']:6}  "
                     + " ".join(f"{k['registers']:6}" for k in of_each) + f"  {short(launch['kernel'])}{cards}")
    return "\n".join(lines) + "\n"


def self_test(launches, kernels):
    """Each limit is seen where it is passed."""
    some = max(launches, key=lambda it: it["dynamic_bytes"])
    architecture = max(kernels)
    kernel = kernels[architecture][some["kernel"]]
    for change, of_kernel, word in (({"dynamic_bytes": 10**6}, {}, "shared memory"), ({"threads": 2048}, {}, "threads"),
                                    ({}, {"registers": 256}, "registers a thread"),
                                    ({"threads": 1024}, {"registers": 128, "threads": 1024}, "registers of sm")):
        said = check_launch({**some, **change}, {**kernel, **of_kernel}, architecture, SHARED_BYTES[90])
        assert any(word in sentence for sentence in said), (word, said)
    assert check(kernels, launches[1:], sorted(kernels)), "a kernel that is not listed"
    everywhere = [{**launch, "cards": [0, 2**31 - 1]} for launch in launches]
    assert any("a block of sm_86" in it for it in check(kernels, everywhere, sorted(kernels))), "large tiles on 8.6"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plugin")
    parser.add_argument("launches")
    parser.add_argument("--architectures", nargs="+", type=int, default=sorted(SHARED_BYTES))
    parser.add_argument("--list")
    arguments = parser.parse_args()
    if arguments.launches.endswith(".json"):
        with open(arguments.launches, encoding="utf-8") as file:
            launches = json.load(file)
    else:
        launches = json.loads(subprocess.run([arguments.launches], capture_output=True, text=True, check=True).stdout)
    kernels = kernels_by_architecture(arguments.plugin)
    if arguments.list:
        with open(arguments.list, "w", encoding="utf-8") as file:
            file.write(table(kernels, launches))
    wrong = check(kernels, launches, arguments.architectures)
    wrong += check_against_cuobjdump(arguments.plugin, kernels)
    for sentence in sorted(set(wrong)):
        print(f"FAIL {sentence}")
    if wrong:
        return 1
    self_test(launches, kernels)
    print(f"ok: {len(launches)} launches of {len(next(iter(kernels.values())))} kernels on "
          + ", ".join(f"sm_{architecture}" for architecture in sorted(kernels)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
