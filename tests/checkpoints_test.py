#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end: going back to a checkpoint, and the best of them. Usage: checkpoints_test.py SLUICE REPO [TEST]"""
import json
import os
import shutil
import signal
import unittest

from handbook_runs import (HELD_OUT, ON_DRIVES, TOKENIZER, ShortSteps, checkpoints, fingerprint, logged_steps, steps_of,
                           trainer_state)
from sluice_process import run


class GoingBack(ShortSteps):
    def test_from_a_checkpoint_a_run_goes_on_to_the_same_bits(self):
        for name, budgets in (("memory", ()), ("drives", ON_DRIVES)):
            settings = ("save_steps=2", *budgets)
            out, _ = self.finish("back" + name, *settings)
            expected = {step: fingerprint(os.path.join(out, f"checkpoint-{step}")) for step in (2, 4, 6, 8)}
            config = self.path("back" + name + ".yaml")
            for words in (["resume", out, "--from", "checkpoint-4"],
                          ["train", config, *settings, f"resume_from_checkpoint={out}/checkpoint-4/"]):
                done = self.succeed(*words)
                self.assertIn("going back from step 8 to step 4: checkpoint-6, checkpoint-8, and what was logged since "
                              "is dropped", done.stderr)
                self.assertEqual(logged_steps(out), list(range(1, 9)))
                for step, wanted in expected.items():
                    self.assertEqual(fingerprint(os.path.join(out, f"checkpoint-{step}")), wanted)
            # Another way from there: what came later is gone.
            done = run("resume", out, "--from", os.path.join(out, "checkpoint-4"), "max_steps=5", "--json")
            self.assertEqual(steps_of(done), [5])
            self.assertEqual(checkpoints(out), [2, 4])
            self.assertEqual([entry["step"] for entry in trainer_state(out)["log_history"]], [1, 2, 3, 4, 5])

    def test_what_is_not_a_checkpoint_of_the_run_is_refused(self):
        out, _ = self.finish("mine", "max_steps=2", "save_steps=1")
        other, words = self.words("other")
        self.refuse(run("resume", out, "--from", "checkpoint-7"), 2, "no checkpoint-7", "it has checkpoint-1")
        self.refuse(run("resume", out, "--from", "step7"), 2, "'step7'", "checkpoint-100")
        self.refuse(run("resume", out, "--from", self.path("elsewhere", "checkpoint-1")), 2, "sluice resume", "base_model")
        self.refuse(run("train", *words, f"resume_from_checkpoint={out}/checkpoint-1"), 2, out, other, "base_model")
        self.assertEqual(checkpoints(out), [1, 2])

    def test_a_run_goes_on_only_with_what_it_began_with(self):
        out, _ = self.finish("began", "max_steps=2")
        larger = self.path("larger")
        run("model", "init", "llama-tiny", larger, "--layers", 3, "--tokenizer", TOKENIZER)
        _, words = self.words("began")
        for change in (f"base_model={larger}", "seed=7", "sequence_len=64"):
            self.refuse(run("train", *words, change, "resume_from_checkpoint=latest"), 2, change.split("=")[0], out)
            self.refuse(run("resume", out, change), 2, change.split("=")[0], out)
        moved = self.path("moved-base")
        os.rename(self.base, moved)
        try:
            shutil.copytree(larger, self.base)
            self.refuse(run("resume", out, "--json", "max_steps=3"), 2, "base_model: ", "--accept-changes")
            self.refuse(run("resume", out, "--json", "max_steps=3", "--accept-changes"), 2, "state of another model")
        finally:
            shutil.rmtree(self.base)
            os.rename(moved, self.base)


class Best(ShortSteps):
    """A held-out loss that falls, then rises: few rows learned by heart, with a learning rate that is far too high."""

    OVERFITTING = ["gradient_accumulation_steps=1", "learning_rate=2e-2", "lr_scheduler=constant", "max_samples=8",
                f"test_datasets=[{{path: {HELD_OUT}}}]", "eval_strategy=steps", "eval_steps=1", "save_strategy=steps",
                "save_steps=1", "max_steps=14", "load_best_model_at_end=true"]

    def evaluations(self, events):
        return {event["step"]: event["loss"] for event in events if event["event"] == "evaluation"}

    def test_the_run_stops_when_patience_is_over_and_the_best_checkpoint_is_the_result(self):
        for name, budgets in (("memory", ()), ("drives", ON_DRIVES)):
            out, events = self.finish("best" + name, *self.OVERFITTING, "early_stopping_patience=3", "save_total_limit=2",
                                    *budgets)
            losses = self.evaluations(events)
            best = min(losses, key=losses.get)
            last = max(losses)
            self.assertLess(last, 14, "the run should have stopped early")
            self.assertEqual(last, best + 3)
            self.assertEqual(checkpoints(out), [best, last])
            self.assertEqual(fingerprint(out), fingerprint(os.path.join(out, f"checkpoint-{best}")))
            state = trainer_state(out)
            self.assertEqual(state["best_metric"], losses[best])
            self.assertEqual(state["best_model_checkpoint"], os.path.join(out, f"checkpoint-{best}"))
            # It has ended: to resume it changes nothing. With more patience it goes on, knowing the best.
            before = fingerprint(out)
            self.assertEqual(steps_of(run("resume", out, "--json")), [])
            self.assertEqual(fingerprint(out), before)
            done = run("resume", out, "--json", "early_stopping_patience=4")
            self.assertEqual(steps_of(done)[0], last + 1)

    def test_one_checkpoint_may_stay_and_the_best_beside_it(self):
        out, events = self.finish("limit1", *self.OVERFITTING, "save_total_limit=1")
        losses = self.evaluations(events)
        best = min(losses, key=losses.get)
        self.assertLess(best, 14)
        self.assertEqual(checkpoints(out), [best, 14])
        out, _ = self.finish("limit3", *self.OVERFITTING, "save_total_limit=3")
        self.assertEqual(checkpoints(out), [best, 13, 14])

    def test_a_run_that_is_killed_evaluates_and_stops_as_one_that_was_not(self):
        for name, budgets in (("memory", ()), ("drives", ON_DRIVES)):
            settings = [*self.OVERFITTING, "early_stopping_patience=3", *budgets]
            whole, events = self.finish("unkilled" + name, *settings)
            expected = self.evaluations(events)
            out, words = self.words("killed" + name, *settings)
            self.stop(words, 4, by=signal.SIGKILL)
            self.succeed("resume", out, "--json")
            with open(os.path.join(out, "trainer_log.jsonl")) as file:
                logged = {entry["current_steps"]: entry["eval_loss"] for entry in map(json.loads, file)
                          if "eval_loss" in entry}
            self.assertEqual(logged, expected)
            self.assertEqual(checkpoints(out), checkpoints(whole))
            self.assertEqual(fingerprint(out), fingerprint(whole))


if __name__ == "__main__":
    unittest.main()
