# SPDX-License-Identifier: Apache-2.0
"""Short runs on the example that ships, from a small random model. A test's arguments: SLUICE REPOSITORY [TEST...]"""
import atexit
import functools
import hashlib
import json
import os
import sys
import tempfile
import unittest

from sluice_process import run, start

REPOSITORY = sys.argv.pop(1)
EXAMPLE = os.path.join(REPOSITORY, "examples", "handbook")
TRAIN = os.path.join(EXAMPLE, "train.jsonl")
HELD_OUT = os.path.join(EXAMPLE, "held_out.jsonl")
TOKENIZER = os.path.join(EXAMPLE, "tokenizer")
ON_DRIVES = ("gpu_memory=8MiB", "host_memory=16MiB")  # too little for the state of the model below

PLACE = tempfile.TemporaryDirectory()
atexit.register(PLACE.cleanup)
os.environ["XDG_CACHE_HOME"] = os.path.join(PLACE.name, "cache")  # this machine is measured once


@functools.cache
def base_model(*more):
    folder = os.path.join(PLACE.name, "-".join(["base", *more]))
    done = run("model", "init", "llama-tiny", folder, "--layers", 2, "--tokenizer", TOKENIZER, *more)
    assert done.returncode == 0, done.stderr
    return folder


def fingerprint(folder, file_name="model.safetensors"):
    with open(os.path.join(folder, file_name), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def events_of(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def steps_of(done):
    return [event["step"] for event in events_of(done) if event["event"] == "step"]


def losses_of(events):
    return tuple(event["loss"] for event in events if event["event"] == "step")


def trainer_state(out):
    with open(os.path.join(out, "trainer_state.json")) as file:
        return json.load(file)


def logged_steps(out):
    with open(os.path.join(out, "trainer_log.jsonl")) as file:
        return [entry["current_steps"] for entry in map(json.loads, file) if "eval_loss" not in entry]


def checkpoints(out):
    return sorted(int(name.split("-")[1]) for name in os.listdir(out) if name.startswith("checkpoint-"))


class HandbookRuns(unittest.TestCase):
    """Subclasses say what their runs have in common."""

    base_words = ()  # more for `sluice model init`
    settings = {}

    @classmethod
    def setUpClass(cls):
        cls.base = base_model(*cls.base_words)

    def path(self, *names):
        return os.path.join(PLACE.name, *names)

    def words(self, name, *more, **keys):
        """A short run into a folder of its own; keys that are None are left out."""
        out = self.path(name)
        config = self.path(name + ".yaml")
        settings = {"base_model": self.base, "datasets": [{"path": TRAIN}], "sequence_len": 128, "micro_batch_size": 1,
                    "max_steps": 8, "learning_rate": 1e-3, "output_dir": out, **self.settings, **keys}
        with open(config, "w") as file:
            json.dump({key: value for key, value in settings.items() if value is not None}, file)
        return out, [config, "--json", *more]

    def succeed(self, *words):
        done = run(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def finish(self, name, *more, **keys):
        """The folder of a whole run, and its events."""
        out, words = self.words(name, *more, **keys)
        return out, events_of(self.succeed("train", *words))

    def stop(self, words, step, by):
        """Sends the signal `by` to a run once it has come to a step. Its exit code and what it said."""
        child = start("train", *words)
        for line in child.stdout:
            if json.loads(line).get("step", 0) >= step:
                break
        child.send_signal(by)
        _, errors = child.communicate(timeout=120)
        return child.returncode, errors

    def refuse(self, done, code, *expected):
        """One sentence that says what is expected of it."""
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("sluice: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for text in expected:
            self.assertIn(text, lines[0])


class ShortSteps(HandbookRuns):
    """Runs for what happens on the way: steps of few sequences, checkpoints as a test says."""

    settings = {"gradient_accumulation_steps": 2, "save_steps": 1000, "threads": 2}
