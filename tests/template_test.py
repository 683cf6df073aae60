#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chat templates against Python's Jinja2, set up as transformers sets it up. Usage: template_test.py SLUICE"""

import datetime
import json
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import jinja2
import jinja2.ext
import jinja2.nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

import jinja_snippets

SLUICE = sys.argv.pop(1)
NUM_RANDOM = 300


class GenerationTag(jinja2.ext.Extension):
    """{% generation %}: here only its body matters."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_keep"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _keep(self, context, caller):
        return caller()


def reference_environment():
    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=[GenerationTag, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment


REFERENCE = reference_environment()


def render_reference(source, messages=(), tools=None, add_generation_prompt=False, **variables):
    """The text, or None where Jinja2 fails."""
    try:
        text = REFERENCE.from_string(source).render(messages=list(messages), tools=tools, documents=None,
                                                    add_generation_prompt=add_generation_prompt, **variables)
        text.encode()
        return text
    except Exception:  # whatever Python raises, the template failed
        return None


def run_sluice(directory, messages=(), tools=None, add_generation_prompt=False, **variables):
    words = [SLUICE, "template", "--model", directory, "--json"]
    if add_generation_prompt:
        words.append("--add-generation-prompt")
    for name, value in variables.items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    given = {"messages": list(messages)}
    if tools is not None:
        given["tools"] = tools
    return subprocess.run(words, input=json.dumps(given), capture_output=True, text=True, timeout=120)


def make_model(directory, source, config=None):
    os.makedirs(directory)
    with open(os.path.join(directory, "chat_template.jinja"), "w", encoding="utf-8", newline="") as file:
        file.write(source)
    with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump(config or {}, file)


class Templates(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def compare_all(self, sources):
        """Every source must render to what Jinja2 makes of it, and fail where it fails, in one sentence."""

        def compare(item):
            idx, source = item
            directory = os.path.join(self.scratch.name, str(idx))
            make_model(directory, source)
            done = run_sluice(directory, **jinja_snippets.VARIABLES)
            wanted = render_reference(source, **jinja_snippets.VARIABLES)
            if wanted is None:
                good = done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1
                return None if good else f"{source!r}: should fail, gave {done.returncode} {done.stdout!r} {done.stderr!r}"
            if done.returncode != 0:
                return f"{source!r}: wanted {wanted!r}, failed with {done.stderr!r}"
            got = json.loads(done.stdout)["text"]
            return None if got == wanted else f"{source!r}: wanted {wanted!r}, got {got!r}"

        with ThreadPoolExecutor(4) as pool:
            wrong = [line for line in pool.map(compare, enumerate(sources)) if line]
        if wrong:
            self.fail(f"{len(wrong)} of {len(sources)} differ:\n" + "\n".join(wrong))

    def test_expressions_are_rendered_as_jinja2_does(self):
        self.compare_all(jinja_snippets.EXPRESSION_TEMPLATES)

    def test_statements_and_whitespace_are_rendered_as_jinja2_does(self):
        self.compare_all(jinja_snippets.STATEMENTS)

    def test_random_templates_are_rendered_as_jinja2_does(self):
        self.compare_all([jinja_snippets.random_template(seed) for seed in range(NUM_RANDOM)])


if __name__ == "__main__":
    unittest.main()
