#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what Hugging Face tokenizers makes of the corpus: make_tokens.py FOLDER CORPUS OUTPUT

For every FOLDER/<name>.json it writes OUTPUT/<name>.tokens, little endian:

  "SLTOKENS"  u32 version  u32 stride  u32 num_lines  u64 hash of the corpus file
  num_lines x u64   hash of the ids without special tokens, of lines 0, stride, 2*stride, ...
  bits, a byte for 8 lines: decode(ids) gives the line back
  u32 count, then `count` x (u32 line, u32 num_ids, num_ids x u32 id, num_ids x (u16 begin, u16 end))
              in full, with ranges in code points of the line
  u32 count, then `count` x (u32 line, u32 num_ids, num_ids x u32 id, u32 num_bytes, bytes)
              ids with special tokens, and what decode makes of them without special tokens

Hashes are FNV-1a, 64 bits. Written with tokenizers 0.23; needs nothing else.
"""

import glob
import json
import os
import struct
import sys

from tokenizers import Tokenizer, __version__

FULL_EVERY = 40
SPECIAL_EVERY = 97


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def pack_ids(ids):
    return struct.pack("<%dI" % len(ids), *ids)


def main():
    folder, corpus_path, output = sys.argv[1:]
    with open(corpus_path, "rb") as file:
        corpus = file.read()
    # Not splitlines: the corpus holds separators that only Python takes for ends of lines.
    lines = [json.loads(line) for line in corpus.decode("utf-8").split("\n") if line]
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        name = os.path.basename(path)[:-5]
        stride = 4 if name.startswith("variant_") else 1
        tokenizer = Tokenizer.from_file(path)
        hashes, flags, full, special = b"", bytearray(), [], []
        chosen = range(0, len(lines), stride)
        flags = bytearray((len(chosen) + 7) // 8)
        for at, line_idx in enumerate(chosen):
            line = lines[line_idx]
            encoding = tokenizer.encode(line, add_special_tokens=False)
            ids = pack_ids(encoding.ids)
            hashes += struct.pack("<Q", fnv1a(ids))
            if tokenizer.decode(encoding.ids, skip_special_tokens=False) == line:
                flags[at // 8] |= 1 << (at % 8)
            if line_idx % (FULL_EVERY * stride) == 0:
                ranges = b"".join(struct.pack("<HH", *offsets) for offsets in encoding.offsets)
                full.append(struct.pack("<II", line_idx, len(encoding.ids)) + ids + ranges)
            if line_idx % (SPECIAL_EVERY * stride) == 0:
                ids = tokenizer.encode(line, add_special_tokens=True).ids
                text = tokenizer.decode(ids, skip_special_tokens=True).encode("utf-8")
                special.append(struct.pack("<II", line_idx, len(ids)) + pack_ids(ids) + struct.pack("<I", len(text)) + text)
        with open(os.path.join(output, name + ".tokens"), "wb") as out:
            out.write(b"SLTOKENS" + struct.pack("<IIIQ", 1, stride, len(chosen), fnv1a(corpus)) + hashes + bytes(flags))
            for group in (full, special):
                out.write(struct.pack("<I", len(group)) + b"".join(group))
        print(name, "tokenizers", __version__, os.path.getsize(os.path.join(output, name + ".tokens")), "bytes")


if __name__ == "__main__":
    main()
