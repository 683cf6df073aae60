#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end: what a terminal shows of the commands, at three widths, and what a pipe gets.

Usage: terminal_test.py SLUICE REPOSITORY [--update] [TEST...]. The screens of tests/terminal/ are what people saw when
they were last looked at, with numbers that differ between machines masked; --update writes them anew: look at them."""
import json
import os
import re
import shutil
import sys
import unittest

UPDATE = "--update" in sys.argv
if UPDATE:
    sys.argv.remove("--update")

from handbook_runs import PLACE, REPOSITORY, TRAIN, HandbookRuns
from sluice_process import SLUICE, run
from terminal_emulator import Terminal

SCREENS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "terminal")
WIDTHS = (40, 80, 200)
LANES = "nvme->host|host->device|device->host|host->nvme|cpu-optimizer|compute"


def masked(text):
    """As it looks, without the digits."""
    return re.sub(r"\d", "#", text.replace(PLACE.name, "/tmp"))


def compared(text):
    """What is the same on every machine: no warnings, sizes of bars, units of numbers, nor where lines are broken."""
    text = re.sub(r"(?m)^warning: .*\n(?: {2,}\S.*\n)*", "", text)
    text = re.sub(r" +", " ", re.sub(r"\n {2,}(?=\S)", " ", text))
    text = text.replace("sluice: stopping in good order; once more ends it at once\n", "")  # where that takes time
    text = re.sub("▕[█▉▊▋▌▍▎▏ ]*", "▕█▏", text)
    text = re.sub("[▁▂▃▄▅▆▇█]{2,}", "▆▃▁", text)
    text = re.sub(r"#+(?:[.,:]#+)*(?:e[-+]#+)?", "#", text)
    text = re.sub(f"(bottleneck )?({LANES})(?= #)", "LANE", text)
    text = re.sub(r"(?<=#) (?:[KMGT]iB|B|ms|s|min|h|d)\b", "", text)
    return re.sub("(device|host|drives) #(?: of #| %)", r"\1 USE", text)


class Screens(HandbookRuns):
    settings = {"gpu_memory": "12MiB", "host_memory": "24MiB", "threads": 2, "gradient_accumulation_steps": 2,
                "val_set_size": 0.1}

    def setUp(self):
        self.maxDiff = None

    def command(self, *words):
        return [SLUICE, *map(str, words)]

    def check(self, name, terminal, text=None):
        """Compares a screen with the one that is kept, and that no line is cut or broken by the terminal."""
        shown = masked(text or terminal.text())
        self.check_lines(terminal)
        path = os.path.join(SCREENS, f"{name}-{terminal.columns}.txt")
        if UPDATE:
            os.makedirs(SCREENS, exist_ok=True)
            with open(path, "w") as file:
                file.write(shown + "\n")
        with open(path) as file:
            self.assertEqual(compared(shown), compared(file.read().rstrip("\n")), f"{path}:\n{shown}")

    def check_lines(self, terminal):
        """Only a long word, such as a path, may reach the last column, where the terminal breaks it."""
        lines = terminal.lines()
        for line, after in zip(lines, lines[1:] + [""]):
            if line.startswith("first rows"):
                break  # texts of the user's
            if len(line.split(" ")[-1] + after.split(" ")[0]) < 16:
                self.assertLess(len(line), terminal.columns, terminal.text())

    def config(self, name, *more, **keys):
        out, words = self.words(name, *more, **keys)
        words.remove("--json")
        return out, words

    def test_a_run_that_is_stopped_by_ctrl_c(self):
        for columns in WIDTHS:
            out, words = self.config(f"stopped{columns}", max_steps=900, eval_strategy="no", save_strategy="no")
            terminal = Terminal(self.command("train", *words), columns)
            terminal.wait_for("^loss .*[▁▂▃▄▅▆▇█]{2}(.|\n)*^kept")
            self.check("train-live", terminal)
            terminal.type(b"\x03")
            self.assertEqual(terminal.finish(), 130, terminal.text())
            self.check("train-stopped", terminal)
            self.assertNotIn("▕", terminal.text())

    def test_a_whole_run_and_what_is_said_when_it_is_resumed(self):
        for columns in WIDTHS:
            out, words = self.config(f"whole{columns}", max_steps=4, eval_strategy="steps", eval_steps=2, save_steps=2,
                                     save_strategy="steps")
            terminal = Terminal(self.command("train", *words), columns)
            self.assertEqual(terminal.finish(), 0, terminal.text())
            self.check("train-whole", terminal)
            before = {name: os.stat(os.path.join(out, name)).st_mtime_ns for name in sorted(os.listdir(out))}
            terminal = Terminal(self.command("resume", out), columns)
            self.assertEqual(terminal.finish(), 0, terminal.text())
            self.check("resume-finished", terminal)
            after = {name: os.stat(os.path.join(out, name)).st_mtime_ns for name in sorted(os.listdir(out))}
            self.assertEqual(before, after, "nothing is written anew")

    def test_verbose_shows_the_plan_and_the_lanes(self):
        out, words = self.config("verbose", max_steps=3, eval_strategy="no", save_strategy="no")
        terminal = Terminal(self.command("train", *words, "--verbose"), 80)
        self.assertEqual(terminal.finish(), 0, terminal.text())
        for text in ("Schedule", "Lanes", "waited for", "planned", "measured"):
            self.assertIn(text, terminal.text())

    def test_a_run_that_fits_nowhere(self):
        for columns in WIDTHS:
            out, words = self.config("refused", gpu_memory="1MiB", host_memory="8MiB")
            terminal = Terminal(self.command("train", *words), columns)
            self.assertEqual(terminal.finish(), 1, terminal.text())
            self.check("train-does-not-fit", terminal)

    def test_generate(self):
        for columns in WIDTHS:
            terminal = Terminal(self.command("generate", "--model", self.base, "--prompt", "The canteen", "--greedy",
                                             "--max-new-tokens", 3, "--ignore-eos"), columns)
            self.assertEqual(terminal.finish(), 0, terminal.text())
            self.check("generate", terminal, "\n".join(terminal.lines()[1:]))  # the text depends on the CPU

    def test_data_check_plan_and_model(self):
        machine = os.path.join(REPOSITORY, "machines", "one-ada.json")
        shutil.copy(TRAIN, PLACE.name)
        for columns in WIDTHS:
            for name, words in (("data-check", ("data", "check", "--model", self.base, "train.jsonl")),
                                ("plan", ("plan", "--model", "llama-tiny", "--machine", machine)),
                                ("model-show", ("model", "show", self.base))):
                terminal = Terminal(self.command(*words), columns, cwd=PLACE.name)
                self.assertEqual(terminal.finish(), 0, terminal.text())
                self.check(name, terminal)

    def test_env_keeps_to_the_columns(self):
        for columns in WIDTHS:
            terminal = Terminal(self.command("env", "--cache", PLACE.name), columns)
            self.assertEqual(terminal.finish(), 0, terminal.text())
            self.check_lines(terminal)
            self.assertTrue(terminal.lines()[0].startswith("CPU     "), terminal.text())
            self.assertNotIn("measuring", terminal.text())  # the bar is gone

    def test_a_mistake_is_wrapped_between_words(self):
        for columns in WIDTHS:
            terminal = Terminal(self.command("train", "/nowhere.yaml"), columns)
            self.assertEqual(terminal.finish(), 2, terminal.text())
            self.check("mistake", terminal)

    def test_every_message_is_seen_once_whatever_is_drawn_below(self):
        out, words = self.config("crowded", max_steps=40, eval_strategy="steps", eval_steps=2, save_strategy="no")
        terminal = Terminal(self.command("train", *words), 80)
        self.assertEqual(terminal.finish(), 0, terminal.text())
        evaluations = re.findall(r"^step (\d+): held-out loss", terminal.text(), re.MULTILINE)
        self.assertEqual(evaluations, [str(step) for step in range(2, 41, 2)], terminal.text())
        self.assertNotIn("▕", terminal.text())
        self.assertNotRegex(terminal.raw.decode(), r"\d B / |0\.00 GB/s")  # slices are no bytes

    def test_a_terminal_that_changes_its_width(self):
        out, words = self.config("resized", max_steps=5000, eval_strategy="no", save_strategy="no")
        terminal = Terminal(self.command("train", *words), 80)
        terminal.wait_for(r"^speed .*tok/s")
        for columns in (120, 50, 100):
            seen = len(terminal.raw)
            terminal.resize(columns)
            terminal.wait_until(lambda: terminal.raw.count(b"train", seen) >= 3 and b"kept" in terminal.raw[-200:])
            self.assertEqual(len(re.findall("^train ", terminal.text(), re.MULTILINE)), 1, terminal.text())
            for line in terminal.lines()[-5:]:
                self.assertLess(len(line), columns, terminal.text())
        terminal.type(b"\x03")
        self.assertEqual(terminal.finish(), 130, terminal.text())

    def test_wide_and_combining_characters_are_counted_as_they_are_shown(self):
        name = "訓練の結果-é-" + "結果" * 20
        out, words = self.config(name, max_steps=6, eval_strategy="no", save_strategy="steps", save_steps=2)
        terminal = Terminal(self.command("train", *words), 80)
        self.assertEqual(terminal.finish(), 0, terminal.text())
        self.assertEqual(len(re.findall("^saved ", terminal.text(), re.MULTILINE)), 3, terminal.text())
        self.assertNotIn("▕", terminal.text())

    def test_json_events_share_a_terminal_with_nothing_that_is_drawn_over(self):
        out, words = self.words("events", max_steps=3, eval_strategy="no", save_strategy="no")
        terminal = Terminal(self.command("train", *words), 80)
        self.assertEqual(terminal.finish(), 0, terminal.text())
        self.assertNotIn(b"\x1b", terminal.raw)
        events = [json.loads(line)["event"] for line in terminal.raw.decode().splitlines()]
        self.assertEqual(events, ["step", "step", "step", "evaluation", "saved", "end"])

    def test_colours_give_way_to_no_color(self):
        out, words = self.config("colours", max_steps=3, eval_strategy="no", save_strategy="no")
        for env, has_colours in (({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)):
            terminal = Terminal(self.command("train", *words, "overwrite_output_dir=true"), 80,
                                env={"NO_COLOR": None, **env})
            self.assertEqual(terminal.finish(), 0, terminal.text())
            self.assertEqual(bool(re.search(rb"\x1b\[\d+m", terminal.raw)), has_colours, (env, terminal.raw))
        shown = Terminal(self.command("data", "check", "--model", self.base, TRAIN), 80, env={"NO_COLOR": "1"})
        self.assertEqual(shown.finish(), 0)
        self.assertNotRegex(shown.raw, rb"\x1b\[[\d;]*m")  # the bar may move the cursor
        self.assertIn("⟦", shown.text())

    def test_a_dumb_terminal_and_a_pipe_get_plain_lines(self):
        out, words = self.config("plain", max_steps=4, eval_strategy="no", save_strategy="no")
        for env in ({"TERM": "dumb"}, {"TERM": None}):
            terminal = Terminal(self.command("train", *words, "overwrite_output_dir=true"), 200, env=env)
            self.assertEqual(terminal.finish(), 0, terminal.text())
            self.assertNotIn(b"\x1b", terminal.raw)
            self.assertNotIn(b"\r", terminal.raw.replace(b"\r\n", b"\n"))
            self.assertEqual(re.findall(r"^step (\d)/4 ", terminal.text(), re.MULTILINE), list("1234"))
        done = run("train", *words, "overwrite_output_dir=true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertNotRegex(done.stderr, "[\x1b\r]")
        self.check_text("train-piped", done.stderr)

    def check_text(self, name, text):
        shown = masked(text).rstrip("\n")
        path = os.path.join(SCREENS, name + ".txt")
        if UPDATE:
            with open(path, "w") as file:
                file.write(shown + "\n")
        with open(path) as file:
            self.assertEqual(compared(shown), compared(file.read().rstrip("\n")), shown)

    def test_the_log_of_a_run_holds_what_was_said_and_every_logged_step(self):
        out, words = self.config("logged", max_steps=6, logging_steps=2, eval_strategy="no", save_strategy="no")
        terminal = Terminal(self.command("train", *words, "max_steps=4"), 80)
        self.assertEqual(terminal.finish(), 0, terminal.text())
        terminal = Terminal(self.command("resume", out, "max_steps=6"), 80)
        self.assertEqual(terminal.finish(), 0, terminal.text())
        with open(os.path.join(out, "train.log")) as file:
            log = file.read()
        self.assertNotRegex(log, "[\x1b\r]")
        for line in log.splitlines():
            self.assertRegex(line, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ")
        self.assertEqual(re.findall(r"  step (\d)/\d ", log), ["2", "4", "6"])
        self.assertIn("going on after step 4 of 6", log)
        self.assertRegex(log, r"trained 6 steps in .* since it was resumed\)")

    def test_elapsed_time_survives_a_resumption(self):
        out, words = self.config("elapsed", max_steps=30, eval_strategy="no", save_strategy="no")
        times = []
        for verb in (("train", *words), ("resume", out, "max_steps=60", "--json")):
            done = run(*verb, *([] if "--json" in verb else ["--json"]))
            self.assertEqual(done.returncode, 0, done.stderr)
            times.append([float(text) for text in re.findall(r'"elapsed_s":([\d.e-]+)', done.stdout)])
        self.assertEqual(times[0], sorted(times[0]))
        # The note of the last commit says when its step began.
        self.assertGreater(times[1][0], times[0][28])
        self.assertEqual(times[1], sorted(times[1]))


if __name__ == "__main__":
    unittest.main()
