#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end: what a run is given: its folder, its budgets, its data. Usage: run_inputs_test.py SLUICE REPO [TEST]"""
import json
import os
import re
import shutil
import unittest

from handbook_runs import ShortSteps, checkpoints, fingerprint, logged_steps, steps_of
from sluice_process import run, start


class Folders(ShortSteps):
    def test_a_folder_takes_one_run_at_a_time(self):
        out, words = self.words("busy", "max_steps=100000")
        child = start("train", *words)
        child.stdout.readline()
        try:
            for again in (["train", *words], ["train", *words, "overwrite_output_dir=true"], ["resume", out]):
                self.refuse(run(*again), 2, f"'{out}' is in use by process {child.pid}")
        finally:
            child.kill()
            child.communicate()

    def test_a_run_is_replaced_only_when_that_is_asked_for(self):
        out, _ = self.finish("replaced", "max_steps=4", "save_steps=1")
        _, words = self.words("replaced", "max_steps=2", "save_steps=2", "seed=5")
        self.refuse(run("train", *words), 2, "sluice resume", "overwrite_output_dir")
        self.assertEqual(checkpoints(out), [1, 2, 3, 4])
        done = self.succeed("train", *words, "overwrite_output_dir=true")
        self.assertIn("are removed", done.stderr)
        self.assertEqual(checkpoints(out), [2])
        self.assertEqual(logged_steps(out), [1, 2])
        fresh, _ = self.finish("fresh", "max_steps=2", "seed=5")
        self.assertEqual(fingerprint(out), fingerprint(fresh))

    def test_what_cannot_fit_is_said_tier_by_tier_with_what_would_fit(self):
        out, words = self.words("cannot-fit", "gpu_memory=3MiB", "host_memory=8MiB")
        words.remove("--json")
        done = run("train", *words)
        self.refuse(done, 1, "no schedule fits")
        self.assertRegex(done.stderr, r"of device memory \(3 MiB given\), .* of host memory \(8 MiB given\) and .* drives")
        changes = done.stderr[done.stderr.index("What would do"):done.stderr.index("sluice: ")]
        self.assertEqual(changes.count(" instead of "), 4, changes)  # three, one with a shorter sequence too
        both = re.search(r"gpu_memory (\d+) MiB and\s+host_memory (\d+) MiB", changes).groups()
        self.assertFalse(os.path.exists(os.path.join(out, "run.json")))
        _, words = self.words("cannot-fit", f"gpu_memory={both[0]}MiB", f"host_memory={both[1]}MiB", "max_steps=1")
        self.succeed("train", *words)


class Data(ShortSteps):
    def write(self, name, *rows):
        path = self.path(name)
        with open(path, "w") as file:
            file.writelines(row + "\n" for row in rows)
        return path

    def test_each_data_set_has_a_type_of_its_own(self):
        """Also where two differ: the rows of the first look like messages, and are none."""
        text = self.write("text.jsonl", *['{"text": "a gate opens", "messages": "see text"}'] * 8)
        chat = self.write("chat.jsonl", '{"messages": [{"role": "user", "content": "When?"}, '
                                        '{"role": "assistant", "content": "Now."}]}')
        datasets = [{"path": text, "type": "completion"}, {"path": chat, "type": "chat_template"}]
        _, events = self.finish("types", datasets=datasets, max_steps=1)
        self.assertTrue(events)
        for wrong in ({"type": "chat_template"}, {"type": "auto"}):
            _, words = self.words("types-wrong", datasets=[{**datasets[0], **wrong}, datasets[1]], max_steps=1)
            self.refuse(run("train", *words), 2, "8 bad rows")

    def test_data_that_cannot_be_used_is_refused_and_bad_rows_are_left_out_on_request(self):
        good = '{"prompt": "a gate", "completion": "opens"}'
        empty = self.write("empty.jsonl")
        self.refuse(run("train", *self.words("empty")[1], f"datasets.0.path={empty}"), 2, empty, "nothing to learn")
        bad = self.write("bad.jsonl", good, '{"prompt": 7, "completion": "x"}', good, "not json", good)
        out, words = self.words("bad", f"datasets.0.path={bad}", "max_steps=2")
        self.refuse(run("train", *words), 2, "2 bad rows", bad + ":2:prompt", "--skip-bad")
        done = self.succeed("train", *words, "--skip-bad")
        for place in (":2:prompt:", ":4:"):
            self.assertIn(bad + place, done.stderr)
        self.assertEqual(steps_of(run("resume", out, "--json", "max_steps=3")), [3])  # still without them

    def test_what_rows_hold_beside_their_examples_is_said_before_the_first_step(self):
        row = {"prompt": "a gate", "completion": "opens", "label": True, "id": 1}
        path = self.write("noted.jsonl", *[json.dumps(row)] * 3, json.dumps({**row, "label": False}))
        notes = json.loads(run("data", "check", self.base, path, "--json").stdout)["notes"]
        self.assertEqual([note.split(":")[0] for note in notes], ["3 rows", "Keys of rows that are ignored"])
        out, words = self.words("noted", f"datasets.0.path={path}", "max_steps=1")
        self.refuse(run("train", *words), 2, f"{path}:4:label", "bad one")
        done = self.succeed("train", *words, "--skip-bad")
        for note in notes:
            self.assertIn(note, done.stderr)
        for note in notes:  # said when the data is read, not again when it is kept
            self.assertNotIn(note, run("resume", out, "max_steps=2").stderr)

    def test_a_template_that_the_model_lacks_is_asked_for(self):
        plain = self.path("plain")
        shutil.copytree(self.base, plain)
        with open(os.path.join(plain, "tokenizer_config.json")) as file:
            settings = json.load(file)
        settings.pop("chat_template", None)
        with open(os.path.join(plain, "tokenizer_config.json"), "w") as file:
            json.dump(settings, file)
        if os.path.exists(os.path.join(plain, "chat_template.jinja")):
            os.remove(os.path.join(plain, "chat_template.jinja"))
        chat = self.write("chat.jsonl", '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}')
        _, words = self.words("plain-run", f"base_model={plain}", f"datasets.0.path={chat}")
        self.refuse(run("train", *words), 2, "chat_template", plain)

    def test_of_each_data_set_the_first_rows_are_taken(self):
        rows = [json.dumps({"prompt": "gate %d" % idx, "completion": " opens"}) for idx in range(9)]
        one, two = self.write("one.jsonl", *rows[:4]), self.write("two.jsonl", *rows[4:])
        first = self.write("first.jsonl", *rows[:3], *rows[4:7])
        cut, _ = self.finish("cut", f"datasets=[{{path: {one}}}, {{path: {two}}}]", "max_samples=3", "max_steps=3")
        same, _ = self.finish("same", f"datasets=[{{path: {first}}}]", "max_steps=3")
        self.assertEqual(fingerprint(cut), fingerprint(same))


if __name__ == "__main__":
    unittest.main()
