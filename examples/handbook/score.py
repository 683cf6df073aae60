#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a model the held-out questions and counts the answers that are right to the letter.

    python3 examples/handbook/score.py SLUICE MODEL [--show N]
"""
import json
import os
import subprocess
import sys


def ask(sluice, model, question):
    done = subprocess.run([sluice, "generate", "--model", model, "--chat", "--prompt", question, "--greedy",
                           "--max-new-tokens", "16", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["text"].strip()


def main():
    sluice, model = sys.argv[1:3]
    show = int(sys.argv[4]) if sys.argv[3:4] == ["--show"] else 0
    here = os.path.dirname(os.path.abspath(__file__))
    right = total = 0
    for line in open(os.path.join(here, "held_out.jsonl")):
        question, answer = (message["content"] for message in json.loads(line)["messages"])
        found = ask(sluice, model, question)
        right += found == answer
        if total < show:
            print(f"  {question}\n    {' '.join(found.split())[:70]!r}{'' if found == answer else '   (should be: ' + answer + ')'}")
        total += 1
    print(f"  {right} of {total} held-out questions answered right")


if __name__ == "__main__":
    main()
