#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice data check` as a user meets it. Usage: data_test.py SLUICE

Tokens are single characters, so what is counted is counted here again: Python's json and csv write the rows, Jinja2
renders them, len() counts."""

import csv
import fcntl
import json
import os
import pty
import random
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import unittest

import jinja2

SLUICE = sys.argv.pop(1)

SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def tokenizer():
    letters = [chr(code) for code in range(0x21, 0x7F)] + ["Ġ", "Ċ"]
    return {
        "version": "1.0",
        "added_tokens": [{"id": idx, "content": token, "special": True, "normalized": False}
                         for idx, token in enumerate(SPECIAL)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {token: idx for idx, token in enumerate(SPECIAL + letters)}, "merges": []},
    }


def num_tokens(text):
    """Of a text whose tokens are characters and special tokens."""
    for token in SPECIAL:
        text = text.replace(token, "\0")
    return len(text)


def conversations():
    rng = random.Random(3)
    letters = "abc dE,\"'\n;:{}[]|"
    words = lambda: "".join(rng.choice(letters) for _ in range(rng.randint(1, 60))).strip() or "x"
    return [(words(), words()) for _ in range(200)]


class DataCheck(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir = scratch.name
        self.model = os.path.join(self.dir, "model")
        os.mkdir(self.model)
        self.write("model/tokenizer.json", json.dumps(tokenizer()))
        self.write("model/tokenizer_config.json", json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
        self.write("model/chat_template.jinja", CHATML)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return path

    def run_check(self, *words):
        return subprocess.run([SLUICE, "data", "check", *words, "--model", self.model], capture_output=True, text=True,
                              timeout=120, encoding="utf-8")

    def report(self, *words, code=0):
        done = self.run_check(*words, "--json")
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def test_every_format_and_schema_counts_the_same_tokens(self):
        rows = conversations()
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
        template = environment.from_string(CHATML)
        tokens, trained = 0, 0
        for question, answer in rows:
            text = template.render(messages=[{"role": "user", "content": question},
                                             {"role": "assistant", "content": answer}])
            tokens += num_tokens(text)
            trained += num_tokens(answer) + 1

        def lines(make):
            return "".join(json.dumps(make(question, answer)) + "\n" for question, answer in rows)

        chat = lambda q, a: [{"role": "user", "content": q}, {"role": "assistant", "content": a}]
        table = os.path.join(self.dir, "f.csv")
        with open(table, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("question", "answer"), *rows])
        objects = [{"question": question, "answer": answer} for question, answer in rows]
        files = {
            self.write("a.jsonl", lines(lambda q, a: {"messages": chat(q, a)})): "messages",
            self.write("b.jsonl", lines(lambda q, a: {"conversations": [{"from": "human", "value": q},
                                                                       {"from": "gpt", "value": a}]})): "conversations",
            self.write("c.jsonl", lines(lambda q, a: {"instruction": q, "input": "", "output": a})): "instruction",
            self.write("d.jsonl", lines(lambda q, a: {"prompt": chat(q, a)[:1],
                                                      "completion": chat(q, a)[1:]})): "prompt-completion",
            self.write("e.json", json.dumps(objects, indent=2)): "question-answer",
            table: "question-answer",
        }
        report = self.report(*files)
        for entry in report["files"]:
            wanted = {"file": entry["file"], "schema": files[entry["file"]], "rows": 200, "bad_rows": 0, "truncated": 0,
                      "dropped": 0, "examples": 200, "tokens": tokens, "trained_tokens": trained}
            self.assertEqual(entry, wanted)
        self.assertEqual(report["tokens"], 6 * tokens)
        self.assertEqual(sum(entry["rows"] for entry in report["lengths"]["histogram"]), 1200)
        self.assertGreater(report["packing"]["fill"], 0.98)
        everything = self.report(table, "--train-on-inputs")
        self.assertEqual(everything["trained_tokens"], tokens - 200)  # nothing predicts the first token of a row

    def test_raw_text_ends_with_the_end_of_text(self):
        path = self.write("a.jsonl", json.dumps({"text": "abc"}) + "\n" + json.dumps({"text": "d"}) + "\n")
        report = self.report(path)
        self.assertEqual((report["tokens"], report["trained_tokens"]), (6, 4))
        self.assertEqual([run["text"] for run in report["samples"][0]["text"] if run["trained"]], ["bc</s>"])
        book = self.write("b.txt", "abcdefgh\n")
        report = self.report(book, "--sequence-len", "4")
        self.assertEqual((report["rows"], report["examples"], report["tokens"], report["truncated"]), (1, 3, 10, 0))

    def test_rows_are_cut_and_dropped_by_the_sequence_length(self):
        rows = [{"prompt": "ab", "completion": "cd"}, {"prompt": "abcdef", "completion": "g"}]
        path = self.write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        report = self.report(path, "--sequence-len", "4")
        self.assertEqual([report[key] for key in ("rows", "truncated", "dropped", "tokens", "trained_tokens")],
                         [2, 2, 1, 4, 2])

    def test_bad_rows_are_named_with_the_place_and_the_key(self):
        path = self.write("a.jsonl", '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}\n'
                                     '{"messages": [{"role": "user", "content": "q"}, {"role": "bot", "content": "a"}]}\n'
                                     '{"messages": \n')
        done = self.run_check(path)
        self.assertEqual(done.returncode, 2)
        self.assertIn("2 bad rows", done.stdout)
        self.assertIn(f'{path}:2:messages[1].role: there is no role "bot"; use system, user, assistant or tool', done.stdout)
        self.assertIn(f"{path}:3: not JSON", done.stdout)
        report = self.report(path, code=2)
        self.assertEqual([(error["line"], error["key"]) for error in report["errors"]], [(2, "messages[1].role"), (3, "")])
        self.assertEqual((report["rows"], report["bad_rows"]), (1, 2))

    def test_a_row_of_another_schema_is_told_so(self):
        path = self.write("a.jsonl", '{"question": "q", "answer": "a"}\n{"text": "t"}\n{"question": "q"}\n')
        errors = self.report(path, code=2)["errors"]
        self.assertEqual([error["line"] for error in errors], [2, 3])
        self.assertIn("the keys of text, the file began with question-answer", errors[0]["what"])
        self.assertEqual(errors[1]["key"], "answer")

    def test_what_the_model_lacks_is_said(self):
        rows = self.write("a.jsonl", json.dumps({"instruction": "i", "output": "o"}) + "\n")
        self.assertEqual(self.report(rows)["notes"], [])
        os.remove(os.path.join(self.model, "chat_template.jinja"))
        os.remove(os.path.join(self.model, "tokenizer_config.json"))
        notes = self.report(rows)["notes"]
        self.assertEqual(len(notes), 2)
        self.assertIn("Alpaca's prompt", notes[0])
        self.assertIn("eos_token", notes[1])

    def test_a_named_schema_is_taken_and_others_are_refused(self):
        path = self.write("a.jsonl", json.dumps({"text": "abc", "question": "q", "answer": "a"}) + "\n")
        self.assertEqual(self.report(path)["files"][0]["schema"], "question-answer")
        self.assertEqual(self.report(path, "--schema", "text")["files"][0]["schema"], "text")
        done = self.run_check(path, "--schema", "prose")
        self.assertEqual(done.returncode, 2)
        self.assertIn('there is no schema "prose"', done.stderr)

    def test_mistakes_of_the_user_are_one_sentence(self):
        rows = self.write("a.jsonl", json.dumps({"question": "q", "answer": "a"}) + "\n")
        other = self.write("a.parquet", "x")
        for words, part in (((os.path.join(self.dir, "none.jsonl"),), "none.jsonl"), ((self.dir,), "is a directory"),
                            ((other,), "a.parquet"), ((rows, "--sequence-len", "1"), "sequence length")):
            done = self.run_check(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(part, done.stderr)
        os.remove(os.path.join(self.model, "chat_template.jinja"))
        done = self.run_check(rows)
        self.assertEqual(done.returncode, 2)
        self.assertIn("give one as chat_template", done.stderr)
        own = self.write("own.jinja", CHATML)
        self.assertEqual(self.report(rows, "--chat-template", own)["rows"], 1)

    def write_rows(self, name, rows):
        return self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def test_the_model_may_come_first(self):
        rows = self.write_rows("a.jsonl", [{"question": "q", "answer": "a"}])
        run = lambda *words: subprocess.run([SLUICE, "data", "check", *words], capture_output=True, text=True, timeout=120)
        first = run(self.model, rows, "--json")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(json.loads(first.stdout), self.report(rows))
        for words, part in (((rows,), "data check MODEL FILE"), ((self.model,), "name one behind the model")):
            done = run(*words)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
            self.assertIn(part, done.stderr)

    def test_rows_in_the_shapes_of_llama_factory_are_trained_or_counted_with_a_reason(self):
        """Hand-made rows like those of the example files that LLaMA-Factory brings."""
        chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
        turns = [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]
        called = turns[:1] + [{"from": "function_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
                              {"from": "observation", "value": "r"}] + turns[1:]
        tools = json.dumps([{"name": "f", "description": "d", "parameters": {}}])
        text = lambda value: [{"type": "text", "value": value}]
        shapes = {  # file: (row, key of the bad row, part of its reason or of the note)
            "glaive_no_call": ({"conversations": turns, "tools": tools}, None, "does not write tools"),
            "glaive_no_tools": ({"conversations": turns, "tools": "[]"}, None, None),
            "glaive_call": ({"conversations": called, "tools": tools}, "conversations[].tool_calls", "does not write tool calls"),
            "kto_good": ({"messages": chat, "label": True}, None, "label is true"),
            "kto_bad": ({"messages": chat, "label": False}, "label", "marked as a bad one"),
            "dpo": ({"conversations": turns[:1], "chosen": turns[1], "rejected": turns[1]}, "rejected", "preference pair"),
            "v1_dpo": ({"chosen_messages": chat, "rejected_messages": chat}, "rejected_messages", "preference pair"),
            "mllm": ({"messages": chat, "images": ["1.jpg"]}, "images", "text alone"),
            "mllm_video_audio": ({"messages": chat, "videos": ["1.mp4"], "audios": ["1.mp3"]}, "videos", "text alone"),
            "v1_multimodal": ({"messages": [{"role": "user", "content": [{"type": "image_url", "value": "1.jpg"}] + text("q")},
                                            chat[1]]}, "messages[].content[]", "text alone"),
            "v1_sft": ({"messages": [{"role": "user", "content": text("q"), "loss_weight": 0.0},
                                     {"role": "assistant", "content": text("a"), "loss_weight": 1.0}]}, None, None),
            "reason_tool_use": ({"messages": [{"role": "user", "content": text("q")}, {"role": "assistant", "content": [
                {"type": "reasoning", "value": "t"}, {"type": "tool_call", "value": '{"name": "f", "arguments": {"x": 1}}'}]}],
                "tools": tools}, "messages[].tool_calls", "does not write tool calls"),
            "reason": ({"messages": [{"role": "user", "content": text("q")}, {"role": "assistant", "content": [
                {"type": "reasoning", "value": "t"}, *text("a")]}]}, None, "leaves out thoughts"),
            "identity": ({"instruction": "q", "input": "", "output": "a"}, None, None),
        }
        want = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>]\n"
        for name, (row, key, part) in shapes.items():
            with self.subTest(name):
                report = self.report(self.write_rows(name + ".jsonl", [row] * 25), code=2 if key else 0)
                if key:
                    self.assertEqual([(kind["key"], kind["rows"]) for kind in report["error_kinds"]], [(key, 25)])
                    self.assertIn(part, report["error_kinds"][0]["what"])
                    self.assertEqual((report["rows"], report["notes"]), (0, []))
                    continue
                shown = "".join(f"[{run['text']}]" if run["trained"] else run["text"] for run in report["samples"][0]["text"])
                self.assertEqual((report["rows"], shown), (25, want))
                self.assertEqual(len(report["notes"]), 1 if part else 0, report["notes"])
                if part:
                    self.assertIn("25 rows: ", report["notes"][0])
                    self.assertIn(part, report["notes"][0])

    def test_every_kind_of_bad_row_is_counted(self):
        good = {"question": "q", "answer": "a"}
        rows = [{"question": 1, "answer": "a"}] * 30 + [good] + [{"question": "q", "answer": 2}] * 5
        path = self.write_rows("a.jsonl", rows)
        self.assertEqual([kind["rows"] for kind in self.report(path, code=2)["error_kinds"]], [30, 5])
        shown = self.run_check(path).stdout
        self.assertIn("… and 15 more; all of them by what is wrong", shown)
        self.assertIn("  5 × answer: wanted a string, found 2", shown)

    def test_keys_that_are_ignored_are_counted(self):
        rows = [{"question": "q", "answer": "a", "id": 1, "source": "s"}] * 3 + [{"question": "q", "answer": "a", "id": 2}]
        notes = self.report(self.write_rows("a.jsonl", rows))["notes"]
        self.assertEqual(notes, ["Keys of rows that are ignored: id (4 rows), source (3 rows)."])

    def measure_long_row(self, num_messages):
        """The report on one row of so many messages, and the most memory that took, in KiB."""
        messages = [{"role": ("user", "assistant")[idx % 2], "content": f"words {idx}"} for idx in range(num_messages)]
        path = self.write_rows(f"{num_messages}.jsonl", [{"messages": messages}])
        child = subprocess.Popen([SLUICE, "data", "check", self.model, path, "--json"], stdout=subprocess.PIPE)
        with child.stdout:
            out = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
        self.assertEqual(status, 0)
        return json.loads(out), usage.ru_maxrss, usage.ru_utime

    def test_a_row_of_100000_messages_takes_linear_time_and_memory(self):
        # It took over 9 minutes. 2 s are wanted; ten times that tell the two apart on any machine.
        report, most_kib, seconds = self.measure_long_row(100_000)
        self.assertEqual((report["rows"], report["bad_rows"]), (1, 0))
        text = "".join(f"<|im_start|>{('user', 'assistant')[idx % 2]}\nwords {idx}<|im_end|>\n" for idx in range(100_000))
        self.assertEqual(report["lengths"]["longest"], num_tokens(text))
        self.assertLess(seconds, 20)
        least_kib = self.measure_long_row(2)[1]
        self.assertLess(self.measure_long_row(200_000)[1] - least_kib, 2.5 * (most_kib - least_kib))

    def show_on_terminal(self, columns, *words):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
        process = subprocess.Popen([SLUICE, "data", "check", *words, "--model", self.model], stdout=theirs,
                                   stderr=subprocess.DEVNULL)
        end = b"<the end>"  # a terminal that its last writer has closed may forget what was not read yet

        def write_end():
            try:
                process.wait(timeout=60)
            finally:
                os.write(theirs, end)

        writer = threading.Thread(target=write_end)
        writer.start()
        output = b""
        while not output.endswith(end):
            output += os.read(ours, 65536)
        writer.join()
        os.close(theirs)
        os.close(ours)
        self.assertEqual(process.returncode, 0)
        output = output.removesuffix(end)
        return output.decode().replace("\r\n", "\n")

    def test_trained_tokens_are_green_on_a_terminal_and_in_brackets_elsewhere(self):
        rows = [{"question": "Hi \x1b[31m", "answer": "Yo " * (idx % 50 + 1)} for idx in range(100)]
        path = self.write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        plain = self.run_check(path)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertIn("⟦Yo <|im_end|>⟧", plain.stdout)
        self.assertNotIn("\x1b", plain.stdout)
        for columns in (60, 80, 120):
            shown = self.show_on_terminal(columns, path)
            self.assertIn("\x1b[32mYo <|im_end|>\x1b[0m", shown)
            self.assertNotIn("\x1b[31m", shown)
            bars = [line for line in shown.splitlines() if "█" in line]
            self.assertGreater(len(bars), 5)
            self.assertEqual(max(len(line) for line in bars), columns - 1)


if __name__ == "__main__":
    unittest.main()
