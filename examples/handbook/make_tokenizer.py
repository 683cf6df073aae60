#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tokenizer/ for the example: a byte-level BPE learned from the handbook and its questions, and a chat template.

    python3 examples/handbook/make_tokenizer.py
"""
import collections
import json
import os
import re

NUM_MERGES = 700
SPECIAL = ["<|end|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def byte_letters():
    """GPT-2's letters for bytes: printable ones stand for themselves."""
    kept = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    letters, extra = {}, 0
    for byte in range(256):
        if byte in kept:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(256 + extra)
            extra += 1
    return letters


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    letters = byte_letters()
    text = open(os.path.join(here, "handbook.md")).read()
    for name in ("train.jsonl", "held_out.jsonl"):
        for line in open(os.path.join(here, name)):
            text += "".join("\n" + message["content"] for message in json.loads(line)["messages"])
    words = collections.Counter(re.findall(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+", text))
    pieces = {word: [letters[byte] for byte in word.encode()] for word in words}
    merges = []
    while len(merges) < NUM_MERGES:
        pairs = collections.Counter()
        for word, parts in pieces.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        for word, parts in pieces.items():
            merged, idx = [], 0
            while idx < len(parts):
                if idx + 1 < len(parts) and (parts[idx], parts[idx + 1]) == best:
                    merged.append(parts[idx] + parts[idx + 1])
                    idx += 2
                else:
                    merged.append(parts[idx])
                    idx += 1
            pieces[word] = merged
    vocab = {letter: idx for idx, letter in enumerate(sorted(letters.values()))}
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    added = []
    for token in SPECIAL:
        added.append({"id": len(vocab) + len(added), "content": token, "single_word": False, "lstrip": False,
                      "rstrip": False, "normalized": False, "special": True})
    pattern = " ?[A-Za-z]+| ?[0-9]+| ?[^\\sA-Za-z0-9]+|\\s+"
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab,
                  "merges": [f"{left} {right}" for left, right in merges]}}
    out = os.path.join(here, "tokenizer")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "tokenizer.json"), "w") as file:
        json.dump(tokenizer, file, ensure_ascii=False, indent=0)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|end|>",
              "model_max_length": 512, "clean_up_tokenization_spaces": False, "chat_template": TEMPLATE}
    with open(os.path.join(out, "tokenizer_config.json"), "w") as file:
        json.dump(config, file, indent=1)
    print("tokens:", len(vocab) + len(added))


if __name__ == "__main__":
    main()
