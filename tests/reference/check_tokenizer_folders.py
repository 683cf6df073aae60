#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether Sluice reads the tokenizer files of a folder together as transformers does: ids with special tokens and
without, and the text that comes back when they are skipped.

Run by hand where transformers and sentencepiece are: check_tokenizer_folders.py SLUICE WORK. WORK is a folder for
scratch.
"""

import io
import json
import os
import shutil
import subprocess
import sys

import sentencepiece
from transformers import AutoTokenizer

# None begins with a blank: transformers 5 takes it for the one that SentencePiece puts in front of it.
TEXTS = ["ab ab", "ab<s>ab</s>", "x <e> y<a>  <b> z", "<E>ab<A> <a><|endoftext|>", "<new>one<x>two  <x>",
         "ab <pad><e><e> ab "]

CHARACTERS = [chr(code) for code in range(33, 127)] + ["\u0120"]
VOCAB = {text: idx for idx, text in enumerate(["<s>", "</s>", *CHARACTERS, "ab", "\u0120ab"])}
MERGES = ["a b", "\u0120 ab"]
NEXT = len(VOCAB)


def token(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True} | flags


def tokenizer_json(normalizer=None):
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": idx} | token(text) for idx, text in enumerate(["<s>", "</s>"])],
            "normalizer": normalizer,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "vocab": VOCAB, "merges": MERGES}}


def there(*tokens):
    """A tokenizer.json that has these too."""
    document = tokenizer_json()
    document["added_tokens"] += [{"id": NEXT + idx} | entry for idx, entry in enumerate(tokens)]
    return {"tokenizer.json": document}


def sentence_piece_model():
    """As Llama's is. What transformers makes of other settings is not what SentencePiece does: it passes over them."""
    lines = ["the lock keeper opens the gate", "ab ab cab", "water is let in until both sides are level"] * 20
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=320, byte_fallback=True,
        hard_vocab_limit=False, normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2)
    return model.getvalue()


def cases():
    fast = {"tokenizer_class": "PreTrainedTokenizerFast"}
    gpt2 = {"vocab.json": VOCAB, "merges.txt": "#version: 0.2\n" + "\n".join(MERGES) + "\n"}
    lower = {"type": "Lowercase"}
    pieces = sentence_piece_model()
    behind = sentencepiece.SentencePieceProcessor(model_proto=pieces).get_piece_size()
    llama = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
             "add_bos_token": True}

    def listed(*tokens, first=NEXT):
        return {"added_tokens_decoder": {str(first + idx): entry for idx, entry in enumerate(tokens)}}

    yield "tokenizer.json", {"tokenizer.json": tokenizer_json(), "tokenizer_config.json": fast}
    yield "roles not in the vocabulary", {
        "tokenizer.json": tokenizer_json(),
        "tokenizer_config.json": fast | {"bos_token": "<s>", "eos_token": "<e>", "pad_token": "<pad>",
                                         "unk_token": None}}
    yield "roles in normalized text", {
        "tokenizer.json": tokenizer_json(lower),
        "tokenizer_config.json": fast | {"eos_token": "<E>",
                                         "pad_token": token("<A>", lstrip=True, __type="AddedToken")}}
    yield "a list with flags", {
        "tokenizer.json": tokenizer_json(),
        "tokenizer_config.json": fast | listed(token("<e>", rstrip=True), token("<a>", lstrip=True, special=False),
                                               token("<x>", special=False, normalized=True, single_word=True))
        | {"eos_token": "<e>"}}
    yield "a list in normalized text", {
        "tokenizer.json": tokenizer_json(lower),
        "tokenizer_config.json": fast | listed(token("<E>"), token("<A>", special=False, normalized=True))}
    yield "a list and a role of the same token", {
        "tokenizer.json": tokenizer_json(),
        "tokenizer_config.json": fast | listed(token("<e>", special=False, rstrip=True)) | {"eos_token": "<e>"}}
    yield "more special tokens", {
        "tokenizer.json": tokenizer_json(),
        "tokenizer_config.json": fast | {"eos_token": "<e>", "additional_special_tokens": ["<a>", "<b>"]}}
    yield "special tokens by name", {
        "tokenizer.json": tokenizer_json(),
        "tokenizer_config.json": fast | {"eos_token": "<e>", "extra_special_tokens": {"turn_token": "<a>"}}}
    yield "added_tokens.json and the map", {
        "tokenizer.json": tokenizer_json(), "tokenizer_config.json": fast,
        "added_tokens.json": {"<e>": NEXT, "<x>": NEXT + 1, "<new>": NEXT + 2},
        "special_tokens_map.json": {"eos_token": token("<e>"), "additional_special_tokens": ["<a>"]}}
    yield "the map beside a list", {
        "tokenizer.json": tokenizer_json(),
        "tokenizer_config.json": fast | listed(token("<e>")) | {"eos_token": "<e>"},
        "special_tokens_map.json": {"eos_token": "<b>", "additional_special_tokens": ["<a>"]}}
    yield "the map against the config", {
        "tokenizer.json": tokenizer_json(), "tokenizer_config.json": fast | {"eos_token": "<e>"},
        "special_tokens_map.json": {"eos_token": "<b>", "pad_token": {"content": "<pad>"}}}
    yield "roles of tokens that are there", there(token("<e>", special=False), token("<x>", special=False)) | {
        "tokenizer_config.json": fast | {"eos_token": "<e>", "turn_token": "<x>"}}
    yield "roles of one model, in order", there() | {
        "tokenizer_config.json": fast | {
            "z_token": "<x>", "a_token": token("<a>", lstrip=True, __type="AddedToken"), "pad_token": "<pad>",
            "extra_special_tokens": {"b_token": "<b>", "z_token": "<new>"}, "eos_token": "<e>"}}
    yield "roles of one model, config and map", there() | {
        "tokenizer_config.json": fast | {"y_token": "<x>", "extra_special_tokens": {"b_token": "<b>"}},
        "special_tokens_map.json": {"y_token": token("<new>"), "a_token": "<a>", "additional_special_tokens": ["<e>"]}}
    yield "extra before additional", there() | {
        "tokenizer_config.json": fast | {
            "additional_special_tokens": ["<x>"], "pad_token": "<pad>",
            "extra_special_tokens": ["<b>", token("<a>", rstrip=True, special=False, __type="AddedToken")]},
        "special_tokens_map.json": {"additional_special_tokens": ["<new>"]}}
    yield "the map's more in added_tokens.json", there() | {
        "tokenizer_config.json": fast, "added_tokens.json": {"<a>": NEXT, "<e>": NEXT + 1},
        "special_tokens_map.json": {"eos_token": "<e>", "additional_special_tokens": ["<a>"]}}
    yield "one token, two roles", there() | {
        "tokenizer_config.json": fast | {"eos_token": "<x>",
                                         "pad_token": token("<x>", lstrip=True, __type="AddedToken")}}
    yield "roles as transformers 5 saves them", there() | {
        "tokenizer_config.json": fast | {"eos_token": "<e>", "model_specific_special_tokens": {"turn": "<a>"}}}
    yield "roles of the model and one beside them", there() | {
        "tokenizer_config.json": fast | {"eos_token": "<e>", "x_token": "<x>",
                                         "model_specific_special_tokens": {"turn": "<a>"}}}
    yield "a frame that the config alone wishes", there() | {
        "tokenizer_config.json": fast | {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}}
    yield "LlamaTokenizer's usual roles", {
        "tokenizer.json": tokenizer_json() | {
            "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "fuse_unk": True, "byte_fallback": True,
                      "vocab": {text.replace("\u0120", "\u2581"): idx for text, idx in VOCAB.items()},
                      "merges": [merge.replace("\u0120", "\u2581") for merge in MERGES]}},
        "tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}}
    for name in ["GPT2Tokenizer", "GPT2TokenizerFast"]:
        yield f"{name}'s files", gpt2 | {"tokenizer_config.json": {"tokenizer_class": name}}
    yield "GPT2Tokenizer's files and roles", gpt2 | {
        "tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<e>", "pad_token": "<pad>",
                                  "add_prefix_space": True}}
    yield "GPT2Tokenizer's files as OPT has them", gpt2 | {
        "tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": token("</s>"),
                                  "eos_token": token("</s>"), "unk_token": token("</s>"), "pad_token": "<pad>"},
        "special_tokens_map.json": {"bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>",
                                    "pad_token": "<pad>"}}
    yield "GPT2Tokenizer's files and a list", gpt2 | {
        "tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"}
        | listed(token("<b>", special=False, rstrip=True), token("<|endoftext|>")) | {"eos_token": "<b>"}}
    yield "tokenizer.model", {"tokenizer.model": pieces, "tokenizer_config.json": llama}
    yield "tokenizer.model, legacy", {"tokenizer.model": pieces, "tokenizer_config.json": llama | {"legacy": True}}
    yield "tokenizer.model and a list", {
        "tokenizer.model": pieces,
        "tokenizer_config.json": llama | listed(token("<e>"), token("<x>", special=False), first=behind)}
    yield "tokenizer.model and the map", {
        "tokenizer.model": pieces, "tokenizer_config.json": llama | {"add_eos_token": True},
        "added_tokens.json": {"<e>": behind}, "special_tokens_map.json": {"pad_token": "<e>"}}


def write(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    # What a folder is for stands in the model's config.
    for name, content in ({"config.json": {"model_type": "llama"}} | files).items():
        if isinstance(content, dict):
            content = json.dumps(content)
        if isinstance(content, str):
            content = content.encode()
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)


def sluice_says(sluice, folder, *arguments):
    run = subprocess.run([sluice, "tokenize", "--model", folder, *arguments], capture_output=True, text=True)
    return json.loads(run.stdout) if run.returncode == 0 else {"refused": run.stderr.strip()}


def differences(sluice, folder):
    theirs = AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        for flags, adds in ([], True), (["--no-special"], False):
            expected = theirs.encode(text, add_special_tokens=adds)
            ours = sluice_says(sluice, folder, "--text", text, "--json", *flags)
            if ours.get("ids") != expected:
                tokens = theirs.convert_ids_to_tokens(expected)
                yield f"{text!r} {flags}: {ours.get('ids', ours)}, not {expected}: {tokens}"
        ids = theirs.encode(text, add_special_tokens=False)
        expected = theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        ours = sluice_says(sluice, folder, "--decode", ",".join(map(str, ids)), "--json", "--no-special")
        if ids and ours.get("text") != expected:
            yield f"{ids}: {ours.get('text', ours)!r}, not {expected!r}"


def main():
    sluice, work = sys.argv[1:3]
    num_bad = 0
    for name, files in cases():
        folder = os.path.join(work, "tokenizer")
        write(folder, files)
        try:
            found = list(differences(sluice, folder))
        except Exception as error:  # what transformers does not take
            found = [f"transformers: {type(error).__name__}: {error}"]
        print(f"{name:40} {'as transformers' if not found else 'differs'}")
        for line in found:
            print(f"    {line}")
        num_bad += bool(found)
    if num_bad:
        sys.exit(f"{num_bad} folders are read otherwise")


if __name__ == "__main__":
    main()
