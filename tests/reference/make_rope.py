#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The frequencies of rotary embeddings, as torch computes them:  make_rope.py OUTPUT

The steps are those of transformers 5 (modeling_rope_utils.py), each in float32, as that library takes them: over a long
context an angle tells apart what was rounded once from what was rounded after every step. Needs torch alone; made with
torch 1.13.
"""
import json
import math
import sys

import torch

FACTOR = 8.0
POSITIONS = 4096  # of the model, and what it was trained with
LLAMA3_POSITIONS, LOW, HIGH = 8192, 1.0, 4.0


def short_factor(pair):
    return 1 + pair / 16


def long_factor(pair):
    return 1 + pair / 4


def plain(theta, dim):
    return 1.0 / waves(theta, dim)


def waves(theta, dim):
    return theta ** (torch.arange(0, dim, 2, dtype=torch.int64).to(torch.float) / dim)


def llama3(theta, dim):
    frequencies = plain(theta, dim)
    lengths = 2 * math.pi / frequencies
    scaled = torch.where(lengths > LLAMA3_POSITIONS / LOW, frequencies / FACTOR, frequencies)
    smooth = (LLAMA3_POSITIONS / lengths - LOW) / (HIGH - LOW)
    smoothed = (1 - smooth) * scaled / FACTOR + smooth * scaled
    is_between = ~(lengths < LLAMA3_POSITIONS / HIGH) * ~(lengths > LLAMA3_POSITIONS / LOW)
    return torch.where(is_between, smoothed, scaled)


def yarn(theta, dim):
    def pair_that_turns(turns):
        return dim * math.log(POSITIONS / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(pair_that_turns(32)), 0)
    high = min(math.ceil(pair_that_turns(1)), dim - 1)
    ramp = torch.clamp((torch.arange(dim // 2, dtype=torch.float32) - low) / (high - low), 0, 1)
    kept = 1 - ramp
    return 1.0 / (FACTOR * waves(theta, dim)) * (1 - kept) + 1.0 / waves(theta, dim) * kept


def longrope(theta, dim, factor):
    factors = torch.tensor([factor(pair) for pair in range(dim // 2)], dtype=torch.float32)
    return 1.0 / (factors * waves(theta, dim))


KINDS = {
    "default": plain,
    "linear": lambda theta, dim: plain(theta, dim) / FACTOR,
    "llama3": llama3,
    "yarn": yarn,
    "longrope": lambda theta, dim: longrope(theta, dim, short_factor),
    "longrope, beyond": lambda theta, dim: longrope(theta, dim, long_factor),
}


def main():
    cases = []
    for kind, compute in KINDS.items():
        for theta, dim in [(10000.0, 128), (500000.0, 128), (1000000.0, 96), (10000.0, 80)]:
            frequencies = [value.hex() for value in compute(theta, dim).double().tolist()]
            cases.append({"kind": kind, "theta": theta, "dim": dim, "frequencies": frequencies})
    with open(sys.argv[1], "w") as file:
        lines = ",\n".join(json.dumps(case) for case in cases)
        file.write("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    main()
