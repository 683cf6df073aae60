#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice tokenize` as a user meets it, on a vocabulary of a few tokens. Usage: tokenize_test.py SLUICE"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

SLUICE = sys.argv.pop(1)

TOKENS = ["<s>", "</s>", "l", "o", "c", "k", "Ġ", "g", "a", "t", "e", "Ċ", "lo", "ck", "lock", "Ġg", "at", "ate", "Ġgate", "Ã", "¼"]
MERGES = ["l o", "c k", "lo ck", "Ġ g", "a t", "at e", "Ġg ate"]


def tokenizer():
    frame = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": "<s>", "special": True, "normalized": False},
                         {"id": 1, "content": "</s>", "special": True, "normalized": False}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "post_processor": {"type": "TemplateProcessing", "single": frame, "pair": [],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {token: idx for idx, token in enumerate(TOKENS)}, "merges": list(MERGES)},
    }


class Tokenize(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.dir = self.scratch.name
        self.write(tokenizer())

    def write(self, document):
        with open(os.path.join(self.dir, "tokenizer.json"), "w", encoding="utf-8") as file:
            file.write(document if isinstance(document, str) else json.dumps(document))

    def run_verb(self, *words, stdin=None):
        return subprocess.run([SLUICE, "tokenize", "--model", self.dir, *words], input=stdin, capture_output=True,
                              text=True, timeout=60, encoding="utf-8")

    def assert_refused(self, done, code, *parts):
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("sluice: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])

    def test_json_has_ids_tokens_and_their_number(self):
        done = self.run_verb("--text", "lock gate", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout), {"ids": [0, 14, 18], "tokens": ["<s>", "lock", "Ġgate"], "count": 3})

    def test_text_comes_from_a_file_or_from_standard_input(self):
        path = os.path.join(self.dir, "text.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("lock\n")
        self.assertEqual(self.run_verb("--file", path, "--ids").stdout, "0 14 11\n")
        self.assertEqual(self.run_verb("--ids", "--no-special", stdin=" gate").stdout, "18\n")
        self.assertEqual(self.run_verb("--ids", "--no-special", "--text", "").stdout, "\n")

    def test_the_table_shows_ids_text_and_bytes(self):
        done = self.run_verb("--text", "lock gateü")
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("18", "·gate", "4..9", "9..10", "10..11", "5 tokens"):
            self.assertIn(part, done.stdout)

    def test_ids_become_text_again(self):
        self.assertEqual(self.run_verb("--decode", "0 14,18 19 20").stdout, "<s>lock gateü\n")
        done = self.run_verb("--decode", "[0, 14, 18]", "--no-special", "--json")
        self.assertEqual(json.loads(done.stdout), {"text": "lock gate", "count": 3})

    def test_what_has_no_end_is_not_waited_for(self):
        self.assert_refused(self.run_verb("--file", "/dev/zero"), 2, "/dev/zero has more than")
        os.remove(os.path.join(self.dir, "tokenizer.json"))
        os.mkfifo(os.path.join(self.dir, "tokenizer.json"))
        self.assert_refused(self.run_verb("--text", "x"), 2, "tokenizer.json is a pipe")

    def test_mistakes_are_one_sentence(self):
        self.assert_refused(self.run_verb("--decode", "14 x1"), 2, "x1")
        self.assert_refused(self.run_verb("--decode", "4000000"), 2, "4000000", "20")
        self.assert_refused(self.run_verb("--file", os.path.join(self.dir, "none")), 2, "none")
        self.assertEqual(self.run_verb("--text", "a", "--decode", "1").returncode, 2)
        os.remove(os.path.join(self.dir, "tokenizer.json"))
        self.assert_refused(self.run_verb("--text", "a"), 2, self.dir, "tokenizer.json", "tokenizer.model")

    def test_a_broken_file_is_named_with_the_key(self):
        broken = tokenizer()
        broken["model"]["merges"].append("lock Ġlocks")
        self.write(broken)
        self.assert_refused(self.run_verb("--text", "a"), 1, "tokenizer.json", "model.merges", "Ġlocks")
        self.write(json.dumps(tokenizer())[:300])
        self.assert_refused(self.run_verb("--text", "a"), 1, "tokenizer.json", "not JSON")


if __name__ == "__main__":
    unittest.main()
