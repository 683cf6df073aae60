#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus that tokenizers are compared on, one JSON string a line: make_corpus.py OUTPUT

The same bytes on every machine and for every Python: the generator of numbers is its own, and nothing but Unicode
normal forms of long settled code points comes from the library.
"""

import json
import sys
import unicodedata

from corpus_seeds import CODE, PIECES, RANGES, SENTENCES, WHITESPACE

NUM_LINES = 10400


class Dice:
    """splitmix64."""

    def __init__(self, seed):
        self.state = seed

    def roll(self, num_sides):
        self.state = (self.state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return (mixed ^ (mixed >> 31)) % num_sides

    def pick(self, things):
        return things[self.roll(len(things))]


def excerpt(dice, text, longest):
    begin = dice.roll(len(text))
    return text[begin:begin + 1 + dice.roll(longest)]


def words(dice):
    parts = dice.pick(SENTENCES).split(" ")
    begin = dice.roll(len(parts))
    return " ".join(parts[begin:begin + 1 + dice.roll(7)])


def number(dice):
    digits = str(dice.roll(10 ** (1 + dice.roll(17))))
    return dice.pick([digits, digits + "." + digits[:3], "0x%x" % int(digits), "-" + digits, digits + "km", digits + "%"])


def strange(dice):
    low, high = dice.pick(RANGES)
    one_block = "".join(chr(low + dice.roll(high - low + 1)) for _ in range(1 + dice.roll(8)))
    if dice.roll(2):
        return one_block
    mixed = ""
    for _ in range(1 + dice.roll(12)):
        low, high = dice.pick(RANGES)
        mixed += chr(low + dice.roll(high - low + 1))
    return mixed


def long_word(dice):
    piece = excerpt(dice, dice.pick(SENTENCES), 4).replace(" ", "") or "x"
    return dice.pick([piece, dice.pick(["a", "ab", "=", "-", "xyz", "é", "好", "0", "😀", " ", "\n", "\t"])]) * (
        5 + dice.roll(60))


def fragment(dice):
    kind = dice.roll(100)
    if kind < 42:
        return words(dice)
    if kind < 54:
        return excerpt(dice, dice.pick(CODE), 60)
    if kind < 70:
        return dice.pick(PIECES)
    if kind < 78:
        return number(dice)
    if kind < 87:
        return strange(dice)
    if kind < 89:
        return long_word(dice)
    if kind < 95:
        return excerpt(dice, dice.pick(SENTENCES), 12)
    return unicodedata.normalize(dice.pick(["NFC", "NFD"]), words(dice))


def mixture(dice):
    line = dice.pick(WHITESPACE) if dice.roll(4) == 0 else ""
    for idx in range(1 + dice.roll(4)):
        if idx:
            line += dice.pick(WHITESPACE)
        line += fragment(dice)
    if dice.roll(4) == 0:
        line += dice.pick(WHITESPACE)
    return line


def lines():
    whole = [""]
    for text in SENTENCES:
        whole += [text, " " + text, unicodedata.normalize("NFD", text), unicodedata.normalize("NFC", text)]
    whole += CODE + PIECES + [space * count for space in WHITESPACE for count in (1, 2, 3)]
    whole += ["a" * 3000, "ab" * 1500, " " * 2000, "\n" * 700, "好" * 900, "é" * 800, "e\u0301" * 500, "0" * 1000, "=-" * 800]
    whole += [" ".join(SENTENCES[:12]), "\n".join(CODE)]
    dice = Dice(20240229)
    seen = set()
    while len(seen) < NUM_LINES:
        line = whole[len(seen)] if len(seen) < len(whole) and whole[len(seen)] not in seen else mixture(dice)
        if line not in seen:
            seen.add(line)
            yield line


def main():
    with open(sys.argv[1], "w", encoding="utf-8", newline="\n") as out:
        for line in lines():
            out.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
