#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derives tokenizers from real vocabularies that use the parts which those leave out: make_variants.py FOLDER

FOLDER holds gpt2.json, llama2.json and qwen2_5.json and gets variant_*.json beside them. Made where the expected tokens
are made and where they are checked, so that no vocabulary has to be stored.
"""

import base64
import json
import struct
import sys


def added(content, **flags):
    token = {"content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": False}
    token.update(flags)
    return token


def number(tokens, vocab):
    """Ids as they are given on loading: the vocabulary's, else on from its end."""
    next_id = len(vocab)
    for token in tokens:
        token["id"] = vocab.get(token["content"], next_id)
        next_id += token["id"] == next_id
    return tokens


def document(model, added_tokens, **parts):
    vocab = model["vocab"]
    if isinstance(vocab, list):
        vocab = {token: idx for idx, (token, _) in enumerate(vocab)}
    added_tokens = number(added_tokens, vocab)
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens, "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model}
    whole.update(parts)
    return whole


def by_id(vocab):
    return sorted(vocab, key=vocab.get)


def double_array(words):
    """The compact double-array trie that SentencePiece stores: words (bytes) to values below 2^31."""
    units = [0]
    used = [True]

    def grow(size):
        while len(units) < size:
            units.extend([0] * 256)
            used.extend([False] * 256)

    def place(node, keys, depth):
        labels = sorted({key[depth] if depth < len(key) else 0 for key in keys})
        base = 1
        while True:
            grow((base | 255) + 1 + 256)
            # A unit's place is its parent's base xor its label; offsets of units with bit 9 unset are 21 bits plain.
            if all(not used[base ^ label] and (base ^ label) for label in labels) and (base ^ node) < (1 << 21):
                break
            base += 1
        for label in labels:
            used[base ^ label] = True
        units[node] |= (base ^ node) << 10
        for label in labels:
            child = base ^ label
            mine = [key for key in keys if (key[depth] if depth < len(key) else 0) == label]
            if label == 0:
                units[child] = words[mine[0]] | (1 << 31)
                units[node] |= 1 << 8
            else:
                units[child] = label
                place(child, mine, depth + 1)

    place(0, sorted(words), 0)
    return units


def charsmap(replacements):
    texts = b""
    words = {}
    for source, target in replacements:
        words[source.encode()] = len(texts)
        texts += target.encode() + b"\0"
    units = double_array(words)
    trie = struct.pack("<%dI" % len(units), *units)
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + texts).decode()


def unigram(llama2):
    """Viterbi with byte fallback, a character map, Metaspace on both ends."""
    vocab = [[token, -(rank % 4096) / 256 - len(token) / 8] for rank, token in enumerate(by_id(llama2["model"]["vocab"]))]
    return document(
        {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": True},
        [added("<unk>", special=True), added("<s>", special=True), added("</s>", special=True),
         added("<mask>", lstrip=True, special=True), added("River", normalized=True),
         added("ACHT", normalized=True, single_word=True)],
        normalizer={"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": charsmap(
                [("\u00a0", " "), ("\ufb01", "fi"), ("e\u0301", "\u00e9"), ("\u3000", " "), ("\uff01", "!"),
                 ("\u200b", " "), ("\u00ad", ""), ("\t", " "), ("\n", " "), ("A", "a"), ("\u2026", "..."), ("\u2460", "1")])},
            {"type": "Lowercase"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            {"type": "Strip", "strip_left": False, "strip_right": True}]},
        pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        post_processor={"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}},
                                                                 {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                        "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}},
        decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True})


def wordpiece(llama2):
    words = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}
    for token in by_id(llama2["model"]["vocab"]):
        plain = token.replace("▁", "").lower()
        for word in (plain, "##" + plain):
            if plain and word not in words:
                words[word] = len(words)
    return document(
        {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
         "vocab": words},
        [added("[UNK]", special=True), added("[CLS]", special=True), added("[SEP]", special=True)],
        normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                    "lowercase": True},
        pre_tokenizer={"type": "BertPreTokenizer"},
        post_processor={"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True})


def byte_level(gpt2):
    """The pattern of GPT-4o, every flag of an added token, a prefix space, several splits after each other."""
    model = dict(gpt2["model"])
    lower = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    upper = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    rest = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    return document(
        model,
        [added("<|endoftext|>", special=True), added("<mask>", lstrip=True, special=True),
         added("[INST]", rstrip=True), added("gate", single_word=True),
         added("</s>", lstrip=True, rstrip=True), added("<|im_end|>", normalized=True),
         added("<|im_end|>>"), added("É", normalized=True)],
        normalizer={"type": "Sequence", "normalizers": [{"type": "NFKC"}]},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "|".join([lower, upper, rest])}, "behavior": "Removed", "invert": True},
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}]},
        post_processor={"type": "RobertaProcessing", "sep": ["<|endoftext|>", 50256], "cls": ["<|endoftext|>", 50256],
                        "trim_offsets": True, "add_prefix_space": True},
        decoder={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True})


def metaspace(llama2):
    """What newer conversions of SentencePiece models look like; unknown tokens are not fused and bytes not used."""
    model = dict(llama2["model"], fuse_unk=False, byte_fallback=False, ignore_merges=False)
    return document(
        model,
        llama2["added_tokens"] + [added("[INST]", normalized=True), added("  ", normalized=True)],
        normalizer={"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Nmt"}]},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Punctuation", "behavior": "Contiguous"},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
            {"type": "Split", "pattern": {"String": "▁"}, "behavior": "MergedWithNext", "invert": False},
            {"type": "Split", "pattern": {"Regex": "[0-9]"}, "behavior": "Contiguous", "invert": False}]},
        post_processor=llama2["post_processor"],
        decoder={"type": "Sequence", "decoders": [
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}, {"type": "Fuse"}]})


def possessive(qwen):
    """Possessive quantifiers as in the pattern of GPT-4, and the bytes taken in a normalizer."""
    pattern = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"
               r"\s*[\r\n]|\s+(?!\S)|\s")
    return document(
        dict(qwen["model"], ignore_merges=True),
        qwen["added_tokens"] + [added("café", normalized=True), added("the", single_word=True, normalized=True)],
        normalizer={"type": "NFC"},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]},
        post_processor={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        decoder=qwen["decoder"])


def main():
    folder = sys.argv[1]

    def read(name):
        with open(f"{folder}/{name}.json", encoding="utf-8") as file:
            return json.load(file)

    gpt2, llama2, qwen = read("gpt2"), read("llama2"), read("qwen2_5")
    variants = {"unigram": unigram(llama2), "wordpiece": wordpiece(llama2), "byte_level": byte_level(gpt2),
                "metaspace": metaspace(llama2), "possessive": possessive(qwen)}
    for name, whole in variants.items():
        with open(f"{folder}/variant_{name}.json", "w", encoding="utf-8") as file:
            json.dump(whole, file, ensure_ascii=False)


if __name__ == "__main__":
    main()
