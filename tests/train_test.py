#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end: sluice train and sluice resume on the example that ships. Usage: train_test.py SLUICE REPOSITORY"""
import json
import os
import signal
import unittest

from handbook_runs import (HELD_OUT, PLACE, REPOSITORY, HandbookRuns, checkpoints, fingerprint, logged_steps, losses_of,
                           steps_of, trainer_state)
from sluice_process import run


class Training(HandbookRuns):
    settings = {"test_datasets": [{"path": HELD_OUT}], "gradient_accumulation_steps": 4, "save_strategy": "no",
                "eval_strategy": "no"}

    def test_budgets_change_no_bit(self):
        results = set()
        for idx, budgets in enumerate((["gpu_memory=512MiB", "host_memory=512MiB"], ["gpu_memory=12MiB", "host_memory=24MiB"],
                                       ["gpu_memory=16MiB", "host_memory=64MiB", "wave_size=1", "group_size=2"],
                                       ["gpu_memory=20MiB", "host_memory=32MiB", "boundaries=nvme", "threads=1"])):
            out, events = self.finish(f"budgets{idx}", *budgets)
            losses = losses_of(events)
            self.assertEqual(len(losses), 8)
            self.assertLess(losses[-1], losses[0])
            results.add((losses, fingerprint(out)))
        self.assertEqual(len(results), 1)

    def test_a_run_that_is_killed_and_resumed_ends_as_one_that_was_not(self):
        whole, _ = self.finish("whole", "save_strategy=steps", "save_steps=2", "save_total_limit=2")
        out, words = self.words("killed", "save_strategy=steps", "save_steps=2", "save_total_limit=2")
        self.stop(words, 5, by=signal.SIGKILL)
        steps = steps_of(self.succeed("resume", out, "--json"))
        self.assertGreaterEqual(steps[0], 3)
        self.assertEqual(steps[-1], 8)
        self.assertEqual(fingerprint(out), fingerprint(whole))
        self.assertEqual(logged_steps(out), list(range(1, 9)))
        history = trainer_state(out)["log_history"]
        self.assertEqual([entry["step"] for entry in history if "loss" in entry], list(range(1, 9)))
        self.assertEqual(checkpoints(out), [6, 8])
        for name in ("config.json", "model.safetensors", "tokenizer.json", "trainer_state.json"):
            self.assertTrue(os.path.exists(os.path.join(out, "checkpoint-8", name)), name)

    def test_ctrl_c_commits_and_says_how_to_go_on(self):
        out, words = self.words("interrupted", "max_steps=2000")
        code, errors = self.stop(words, 2, by=signal.SIGINT)
        self.assertEqual(code, 130, errors)
        self.assertGreaterEqual(trainer_state(out)["global_step"], 2)

    def test_what_cannot_be_is_one_sentence(self):
        out, words = self.words("refused")
        for more, code, expected in ((["gpu_memory=1MiB", "host_memory=8MiB"], 1, "no schedule fits"),
                                     (["adapter=lora", "lora_target_modules=[nonsense]"], 2, "nonsense"),
                                     (["optimizer=lion_8bit"], 2, "adamw_8bit"),
                                     (["momentum=0.9"], 2, "sgd"),
                                     (["resume_from_checkpoint=/some/checkpoint-4"], 2, "not a checkpoint of the run"),
                                     (["learning_rte=1"], 2, "learning_rate"),
                                     (["base_model=/nowhere"], 2, "/nowhere"),
                                     (["datasets.0.path=/nowhere.jsonl"], 2, "/nowhere.jsonl")):
            done = run("train", *words, *more)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stdout, "")
        done = run("resume", PLACE.name)
        self.assertEqual(done.returncode, 2)
        self.assertIn("config.yaml", done.stderr)

    def test_the_plan_of_a_configuration_is_the_plan_of_its_run(self):
        budgets = ["gpu_memory=16MiB", "host_memory=32MiB"]
        out, words = self.words("planned", *budgets)
        done = self.succeed("plan", *words)
        self.assertFalse(os.path.exists(out), "a plan leaves nothing behind")
        planned = json.loads(done.stdout)
        _, events = self.finish("planned", *budgets)
        with open(os.path.join(out, "plan.json")) as file:
            ran = json.load(file)
        for key in ("schedule", "memory", "request"):
            if key == "memory":  # the drives' budget is what is free at the time
                for tier in (planned, ran):
                    tier["memory"]["drives"].pop("budget")
            if key == "request":
                for tier in (planned, ran):
                    tier["request"].pop("drive_space", None)
            self.assertEqual(planned[key], ran[key], key)
        end = events[-1]
        self.assertEqual(end["event"], "end")
        for tier in ("device", "host", "drives"):
            peak, predicted = end["peak_bytes"][tier], end["predicted_peak_bytes"][tier]
            self.assertLessEqual(peak, predicted, tier)
            self.assertGreater(peak, 0.99 * predicted, tier)  # sequences are not always packed to the last token
        self.assertEqual(planned["memory"]["device"]["total"], end["predicted_peak_bytes"]["device"])
        # Steps are counted where the configuration does not say.
        epochs = self.succeed("plan", *words, "max_steps=null", "num_epochs=2", "gradient_accumulation_steps=1")
        self.assertGreater(json.loads(epochs.stdout)["request"]["steps"], 8)
        # A card's kernels take memory of their own.
        _, roomy = self.words("planned", "gpu_memory=1GiB")
        ada = self.succeed("plan", *roomy, "--machine", os.path.join(REPOSITORY, "machines", "one-ada.json"))
        self.assertIn("Ada", json.loads(ada.stdout)["machine"]["name"])
        both = run("plan", *words, "--model", "llama-tiny")
        self.assertEqual(both.returncode, 2)

    def test_a_trace_has_a_thread_for_each_lane(self):
        out, events = self.finish("traced", "gpu_memory=12MiB", "host_memory=24MiB", "--trace", "--trace-steps", 5)
        with open(os.path.join(out, "trace.json")) as file:
            trace = json.load(file)
        names = {event["tid"]: event["args"]["name"] for event in trace if event["name"] == "thread_name"}
        self.assertEqual(set(names.values()), {"steps", "nvme->host", "host->device", "compute", "device->host",
                                               "cpu-optimizer", "host->nvme"})
        spans = [event for event in trace if event["ph"] == "X"]
        # Whether gradients leave the device is for the plan to say, which follows the machine's speeds.
        self.assertLessEqual(set(names.values()) - {"device->host"}, {names[span["tid"]] for span in spans})
        self.assertEqual([span["name"] for span in spans if names[span["tid"]] == "steps"],
                         [f"step {idx}" for idx in range(1, 6)])
        step = next(event for event in reversed(events) if event["event"] == "step")
        self.assertEqual(set(step["lanes"]), set(names.values()) - {"steps"})
        self.assertGreater(step["lanes"]["compute"], 0)
        elsewhere = self.path("elsewhere.json")
        self.finish("traced2", f"--trace={elsewhere}", "max_steps=1")
        self.assertTrue(os.path.exists(elsewhere))

    def test_bench_step_measures_every_lane(self):
        cache = self.path("drive")
        os.mkdir(cache)
        out, words = self.words("bench", "gpu_memory=12MiB", "host_memory=24MiB", f"cache=[{cache}]")
        found = json.loads(self.succeed("bench", "step", *words, "--steps", 2).stdout)
        self.assertEqual(len(found["steps"]), 2)
        self.assertGreaterEqual(found["ratio"], 1)
        self.assertEqual(found["bound_s"], max(found["lanes"].values()))
        for lane in ("nvme->host", "host->device", "compute", "cpu-optimizer", "host->nvme"):
            self.assertGreater(found["lanes"][lane], 0, lane)
        for tier in ("device", "host"):
            self.assertEqual(found["bytes"][tier]["peak"], found["bytes"][tier]["planned"])
        self.assertEqual(os.listdir(cache), [])
        self.assertFalse(os.path.exists(out))
        done = run("bench", "step", "--model", "llama-9", "--cache", cache)
        self.assertEqual(done.returncode, 2, done.stderr)
        done = run("bench", "step", words[0], "--seq", "64")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--sequence-len", done.stderr)
        shape = ["--shape", "llama-tiny", "--seq", "32", "--cache", cache, "--steps", "1", "--warm-up", "1", "--json"]
        self.assertGreater(json.loads(self.succeed("bench", "step", *shape, "--dtype", "f32").stdout)["step_s"], 0)

    def test_a_second_run_in_the_folder_is_refused(self):
        out, words = self.words("twice")
        self.assertEqual(run("train", *words, "max_steps=1").returncode, 0)
        done = run("train", *words)
        self.assertEqual(done.returncode, 2)
        self.assertIn("sluice resume", done.stderr)
        done = self.succeed("train", *words, "max_steps=3", "resume_from_checkpoint=latest")
        self.assertEqual(steps_of(done), [2, 3])

    def test_every_optimizer_trains_and_a_run_keeps_its_own(self):
        small = ["gpu_memory=12MiB", "host_memory=24MiB", "max_steps=3"]
        for more in (["optimizer=adamw_bf16"], ["optim=paged_adamw_8bit"], ["optimizer=sgd", "momentum=0.9"]):
            results = set()
            for idx, budgets in enumerate((small, ["max_steps=3"])):
                out, events = self.finish(f"{more[0]}{idx}", *more, *budgets)
                losses = losses_of(events)
                results.add((losses, fingerprint(out)))
            self.assertEqual(len(results), 1, more)
        out, words = self.words("optim=paged_adamw_8bit0")
        done = run("train", *words, "max_steps=4", "resume_from_checkpoint=latest")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "optimizer: .*began with .*adamw_8bit")
        self.succeed("train", *words, "optimizer=adamw_8bit", "max_steps=4", "resume_from_checkpoint=latest")


if __name__ == "__main__":
    unittest.main()
