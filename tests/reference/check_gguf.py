#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether transformers reads the GGUF files that Sluice writes: logits of the file against those of its folder.

Run by hand where torch, transformers and gguf are: check_gguf.py SLUICE WORK. WORK is a folder for scratch. Models are
random ones of small shape in this repository's reference folders; where llama.cpp fixes what a config leaves open, the
config is set to that first.
"""

import json
import os
import shutil
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
# Name, and what is changed in its config. transformers does not read every architecture that llama.cpp does.
CASES = [("llama", {}), ("llama-three-heads", {}), ("mistral-head-dim", {}), ("qwen2", {}), ("qwen3", {}),
         ("phi3-window", {}), ("gemma2", {"query_pre_attn_scalar": 8}), ("gemma3", {"query_pre_attn_scalar": 8})]
# Largest difference of a logit, over the largest logit.
LIMITS = {"f32": 1e-5, "bf16": 1e-5, "q8_0": 3e-2}


def letters(count):
    """A tokenizer of as many tokens as there are rows: transformers takes the size of the vocabulary from it."""
    alphabet = [chr(0x4E00 + idx) for idx in range(count)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {text: idx for idx, text in enumerate(alphabet)}, "merges": []}}


def prepare(name, changes, work):
    folder = os.path.join(work, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(os.path.join(MODELS, name, "config.json")) as file:
        config = {**json.load(file), **changes}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump(letters(config["vocab_size"]), file)
    shutil.copy(os.path.join(MODELS, name, "model.safetensors"), folder)
    return folder, config["vocab_size"]


def main():
    sluice, work = sys.argv[1:]
    os.makedirs(work, exist_ok=True)
    failures = 0
    for name, changes in CASES:
        folder, vocab = prepare(name, changes, work)
        ids = torch.randint(3, vocab, (2, 6), generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            want = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()(ids).logits
        for kind, limit in LIMITS.items():
            file = f"model-{kind}.gguf"
            subprocess.run([sluice, "export", folder, os.path.join(folder, file), "--type", kind], check=True,
                           stdout=subprocess.DEVNULL)
            try:
                model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
            except (ValueError, NotImplementedError) as error:
                print(f"{name:20} {kind:5} not read by transformers: {error}")
                continue
            with torch.no_grad():
                got = model(ids).logits
            difference = ((got - want).abs().max() / want.abs().max()).item()
            failures += difference > limit
            print(f"{name:20} {kind:5} {difference:.2e} {'' if difference <= limit else 'TOO FAR'}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
