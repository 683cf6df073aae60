#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that Sluice writes, read by transformers:  check_checkpoints.py SLUICE CHECKPOINT_TOOL WORK [SHAPE:LAYERS ...]

For every reference model, one saved after an update; for every shape, one of `sluice model init`. Each is loaded with
from_pretrained() in fp32, and its logits must be those that Sluice computes. Needs torch and transformers.
"""
import os
import random
import shutil
import subprocess
import sys

import numpy
import torch
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = ["llama-2-7b:1", "llama-3.1-8b:1", "llama-3.2-1b:2", "qwen2.5-0.5b:2", "qwen3-8b:1", "mistral-7b:1",
          "mistral-small-24b:1", "gemma-2-9b:2", "gemma-3-1b:6", "phi-4:1", "opt-13b:1", "falcon-7b:1", "falcon-40b:1"]
TOLERANCE = 1e-5


def compare(name, tool, folder, work, num_tokens):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    generator = random.Random(7)
    ids = [generator.randrange(3, model.config.vocab_size) for _ in range(num_tokens)]
    out = os.path.join(work, "logits.bin")
    subprocess.run([tool, "logits", folder, ",".join(map(str, ids)), out], check=True)
    ours = torch.from_numpy(numpy.fromfile(out, dtype=numpy.float32)).view(num_tokens, -1).double()
    with torch.no_grad():
        theirs = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()
    error = float((ours - theirs).norm() / theirs.norm())
    print(f"{name:36} {sum(p.numel() for p in model.parameters()):12} parameters, logits differ by {error:.1e}", flush=True)
    return error


def main():
    sluice, tool, work = sys.argv[1:4]
    shapes = sys.argv[4:] or SHAPES
    errors = {}
    for name in sorted(os.listdir(os.path.join(HERE, "models"))):
        folder = os.path.join(work, "stepped")
        shutil.rmtree(folder, ignore_errors=True)
        ids = ",".join(str(3 + (7 * idx) % 50) for idx in range(24))
        subprocess.run([tool, "step", os.path.join(HERE, "models", name), ids, folder], check=True)
        errors[name] = compare(f"{name}, updated", tool, folder, work, 33)
    for shape in shapes:
        name, layers = shape.split(":")
        folder = os.path.join(work, "init")
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sluice, "model", "init", name, folder, "--layers", layers, "--seed", "5"], check=True)
        errors[shape] = compare(f"{name}, {layers} layers", tool, folder, work, 48)
    bad = {name: error for name, error in errors.items() if not error <= TOLERANCE}
    print(f"{len(errors)} checkpoints, worst {max(errors.values()):.1e}")
    if bad:
        sys.exit(f"these differ: {bad}")


if __name__ == "__main__":
    main()
