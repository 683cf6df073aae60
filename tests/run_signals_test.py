#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end: signals at random moments of runs whose state lives in memory. Usage: run_signals_test.py SLUICE REPO
[TEST]. SLUICE_SIGNALS in the environment: how many."""
import json
import os
import random
import shutil
import signal
import time
import unittest

from handbook_runs import ShortSteps, fingerprint, steps_of
from sluice_process import start

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, the runs below would ignore it too


class Signals(ShortSteps):
    """State in memory, commits by time: a signal at any moment costs at most the time since the last commit."""

    settings = {**ShortSteps.settings, "save_strategy": "no", "max_steps": 160, "commit_every": "1s"}
    # STOP with CONT, and PIPE, cost nothing; the first four end the run in good order.
    NUMBER = int(os.environ.get("SLUICE_SIGNALS", "24"))

    def test_random_signals_cost_at_most_what_came_after_the_last_commit(self):
        whole, _ = self.finish("undisturbed")
        dice = random.Random(7)
        out, words = self.words("disturbed")
        runs = 0
        committed = 0
        done_steps = 0
        while runs < self.NUMBER:
            what = dice.choice((signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGSTOP, signal.SIGKILL))
            child = start(*(("resume", out, "--json") if os.path.exists(os.path.join(out, "run.json")) else
                            ("train", *words)))
            after = dice.choice((0, 0, 1, 2, 3, 5, 8, 13))
            first = None
            commits = []
            for line in child.stdout:
                event = json.loads(line)
                if event["event"] == "commit":
                    commits.append(event["step"])
                if event["event"] != "step":
                    continue
                first = event["step"] if first is None else first
                done_steps = event["step"]
                after -= 1
                if after == 0:
                    if what == signal.SIGSTOP:
                        child.send_signal(signal.SIGSTOP)
                        os.waitpid(child.pid, os.WUNTRACED)
                        child.send_signal(signal.SIGCONT)
                    else:
                        child.send_signal(what)
            errors = child.stderr.read()
            child.stdout.close()
            child.stderr.close()
            code = child.wait()
            runs += 1
            self.assertIn(code, (0, 130, -signal.SIGKILL, -signal.SIGPIPE), errors)
            if first is not None:
                self.assertEqual(first, committed + 1, f"run {runs}, after {what}: {errors}")
            committed = max([committed, *commits])
            if code in (0, 130):
                committed = done_steps
            if code == 0:
                self.assertEqual(fingerprint(out), fingerprint(whole))
                shutil.rmtree(out)
                committed = 0
        if os.path.exists(out):
            self.succeed("resume", out, "--json")
            self.assertEqual(fingerprint(out), fingerprint(whole))

    def test_a_killed_run_has_lost_at_most_the_interval(self):
        out, words = self.words("killed", "max_steps=100000")
        child = start("train", *words)
        committed = None
        steps_after = {}
        for line in child.stdout:
            event = json.loads(line)
            now = time.monotonic()
            if event["event"] == "step":
                steps_after[event["step"]] = now
            if event["event"] == "commit":
                committed = event["step"]
                if len([step for step in steps_after if step > 1]) > 1 and event["step"] > 20:
                    break
        child.kill()
        child.communicate()
        done = self.succeed("resume", out, "--json", f"max_steps={committed + 2}")
        self.assertGreaterEqual(steps_of(done)[0], committed + 1)

    def test_a_closed_terminal_commits_the_step(self):
        whole, _ = self.finish("terminal", "max_steps=100")
        out, words = self.words("hung-up", "max_steps=100")
        child = start("train", *words)
        last = 0
        for line in child.stdout:
            event = json.loads(line)
            last = event.get("step", last)
            if event["event"] == "step" and last == 2:
                child.send_signal(signal.SIGHUP)
                child.send_signal(signal.SIGHUP)  # from the terminal, and from its shell
                child.send_signal(signal.SIGTERM)  # from the session's manager
        errors = child.stderr.read()
        child.stdout.close()
        child.stderr.close()
        self.assertEqual(child.wait(), 130, errors)
        done = self.succeed("resume", out, "--json")
        self.assertEqual(steps_of(done)[0], last + 1)
        self.assertEqual(fingerprint(out), fingerprint(whole))

    def test_nohup_keeps_a_run_going(self):
        out, words = self.words("nohup", "max_steps=6")
        child = start("train", *words, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        child.stdout.readline()
        child.send_signal(signal.SIGHUP)
        child.communicate()
        self.assertEqual(child.returncode, 0)


if __name__ == "__main__":
    unittest.main()
