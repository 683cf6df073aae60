#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end: a reader that goes away, a full drive and a closed stream end what is printed, not the run.

Usage: lost_outputs_test.py SLUICE REPOSITORY [TEST...]"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from handbook_runs import PLACE, ShortSteps, fingerprint, logged_steps, trainer_state
from sluice_process import SLUICE, run, start
from terminal_emulator import Terminal

MIB = 1 << 20


def log_of(out):
    with open(os.path.join(out, "train.log")) as file:
        return file.read()


class LostOutputs(ShortSteps):
    settings = {**ShortSteps.settings, "max_steps": 12, "save_strategy": "no", "eval_strategy": "no"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        out, words = cls.words(cls(), "undisturbed")
        assert run("train", *words).returncode == 0
        cls.weights = fingerprint(out)

    def assert_trained(self, out, *said):
        self.assertEqual(trainer_state(out)["global_step"], 12)
        self.assertEqual(logged_steps(out), list(range(1, 13)))
        self.assertEqual(fingerprint(out), self.weights)
        log = log_of(out)
        self.assertIn("trained 12 steps", log)
        for text in said:
            self.assertEqual(log.count(text), 1, log)

    def test_a_standard_error_that_is_full_or_has_no_reader(self):
        def full(words):
            with open("/dev/full", "w") as file:
                return subprocess.run(words, stdout=subprocess.PIPE, stderr=file, text=True, timeout=300)

        def no_reader(words):
            reader, writer = os.pipe()
            os.close(reader)
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=writer, text=True, timeout=300)
            os.close(writer)
            return done

        for name, lose, why in (("full", full, "No space left on device"), ("unread", no_reader, "Broken pipe")):
            out, words = self.words(name)
            words.remove("--json")
            done = lose([SLUICE, "train", *words])
            self.assertEqual(done.returncode, 0)
            self.assertEqual(done.stdout.count(why), 1, done.stdout)  # where it can still be said
            self.assert_trained(out, why)
            out, words = self.words(name + "-json")
            done = lose([SLUICE, "train", *words, "max_steps=zwölf"])
            self.assertEqual(done.returncode, 2)

    def test_a_standard_output_that_is_full_or_has_no_reader(self):
        for name, target in (("out-full", "/dev/full"), ("out-unread", None)):
            out, words = self.words(name)
            if target:
                with open(target, "w") as file:
                    done = subprocess.run([SLUICE, "train", *words], stdout=file, stderr=subprocess.PIPE, text=True,
                                          timeout=300)
                code, errors = done.returncode, done.stderr
            else:
                child = start("train", *words)
                json.loads(child.stdout.readline())  # as `| head -1`
                child.stdout.close()
                errors = child.stderr.read()
                child.stderr.close()
                code = child.wait()
            self.assertEqual(code, 0, errors)
            self.assertEqual(errors.count("standard output cannot be written"), 1, errors)
            self.assert_trained(out, "standard output cannot be written")

    def test_streams_that_are_closed(self):
        for name, closed, more in (("none", ">&- 2>&-", "--json"), ("no-out", ">&-", "--json"), ("no-err", "2>&-", "")):
            out, words = self.words("closed-" + name)
            words.remove("--json")
            done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", SLUICE, "train", *words, *more.split()],
                                  capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_trained(out)

    def test_a_terminal_that_goes_away(self):
        out, words = self.words("hung-up")
        words.remove("--json")
        terminal = Terminal([SLUICE, "train", *words], 80, is_controlling=False)
        terminal.wait_for("^(train|model) ")
        terminal.hang_up()
        self.assertEqual(terminal.wait(), 0)
        self.assert_trained(out, "standard error cannot be written (Input/output error)")

    def test_logs_on_a_full_drive(self):
        folder = tempfile.mkdtemp(dir=PLACE.name)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", folder], capture_output=True)
        if done.returncode != 0:
            self.skipTest("this user may not mount")
        try:
            whole, _ = self.finish("roomy-logs", "max_steps=60")
            _, words = self.words("full-logs", "max_steps=60")
            out = os.path.join(folder, "out")
            child = start("train", *words, f"output_dir={out}", f"cache=[{self.path('full-logs-cache')}]")
            filler = os.path.join(folder, "filler")
            for line in child.stdout:
                event = json.loads(line)
                if event.get("step") not in (2, 50):
                    continue
                child.send_signal(signal.SIGSTOP)
                if event["step"] == 2:
                    with open(filler, "wb") as file:  # to the last byte
                        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(folder).free)
                else:
                    os.remove(filler)
                child.send_signal(signal.SIGCONT)
            errors = child.stderr.read()
            child.stdout.close()
            child.stderr.close()
            self.assertEqual(child.wait(), 0, errors)
            for told in ("trainer_log.jsonl misses entries", "train.log cannot be written"):
                self.assertEqual(errors.count(told), 1, errors)
            self.assertEqual(fingerprint(out), fingerprint(whole))
            logged = [entry["step"] for entry in trainer_state(out)["log_history"]]
            self.assertEqual(logged, list(range(1, 61)))  # which is written at the end
            self.assertIn("trained 60 steps", log_of(out))
        finally:
            subprocess.run(["umount", folder], check=True)

    def test_other_commands_end_quietly_with_their_status_when_nobody_reads(self):
        for words in (["env", "--json", "--no-measure"], ["model", "show", self.base],
                      ["generate", "--model", self.base, "--prompt", "The", "--ignore-eos", "--max-new-tokens", "2000"]):
            child = start(*words)
            child.stdout.close()
            errors = child.stderr.read()
            child.stderr.close()
            self.assertEqual(child.wait(), 0, errors)
            self.assertNotIn("sluice: ", errors)


if __name__ == "__main__":
    unittest.main()
