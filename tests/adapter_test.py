#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end: adapters, trained, saved, merged. Usage: adapter_test.py SLUICE REPOSITORY"""
import json
import os
import signal
import unittest

import handbook_runs
from handbook_runs import HELD_OUT, HandbookRuns, losses_of, trainer_state
from safetensors_files import read_tensors
from sluice_process import run


def fingerprint(folder):
    return handbook_runs.fingerprint(folder, "adapter_model.safetensors")


class Adapters(HandbookRuns):
    base_words = ("--dtype", "f32")
    settings = {"test_datasets": [{"path": HELD_OUT}], "gradient_accumulation_steps": 4, "learning_rate": 1e-2,
                "save_strategy": "no", "eval_strategy": "no", "adapter": "lora", "lora_r": 4}

    def eval_loss(self, out):
        return [entry["eval_loss"] for entry in trainer_state(out)["log_history"] if "eval_loss" in entry][-1]

    def test_budgets_change_no_bit(self):
        results = set()
        for idx, budgets in enumerate(({"gpu_memory": "512MiB", "host_memory": "512MiB"},
                                       {"gpu_memory": "8MiB", "host_memory": "16MiB"},
                                       {"gpu_memory": "12MiB", "host_memory": "16MiB", "wave_size": 1, "group_size": 2,
                                        "boundaries": "nvme", "threads": 1})):
            out, events = self.finish(f"budgets{idx}", lora_dropout=0.1, **budgets)
            losses = losses_of(events)
            self.assertEqual(len(losses), 8)
            self.assertLess(losses[-1], losses[0])
            self.assertFalse(os.path.exists(os.path.join(out, "model.safetensors")))
            results.add((losses, fingerprint(out)))
        self.assertEqual(len(results), 1)

    def test_killed_and_resumed_ends_as_one_that_was_not(self):
        keys = {"save_strategy": "steps", "save_steps": 2, "finetuning_type": "lora", "adapter": None}
        whole, _ = self.finish("whole", **keys)
        out, words = self.words("killed", **keys)
        self.stop(words, 5, by=signal.SIGKILL)
        self.succeed("resume", out, "--json")
        self.assertEqual(fingerprint(out), fingerprint(whole))
        self.assertEqual(fingerprint(os.path.join(out, "checkpoint-4")), fingerprint(os.path.join(whole, "checkpoint-4")))

    def test_the_merged_model_is_the_trained_one(self):
        out, _ = self.finish("tuned", dtype="fp32", use_rslora=True, lora_target_modules=["q_proj", "v_proj", "down_proj"])
        with open(os.path.join(out, "adapter_config.json")) as file:
            config = json.load(file)
        self.assertEqual((config["peft_type"], config["r"], config["lora_alpha"], config["use_rslora"]),
                         ("LORA", 4, 8, True))
        self.assertEqual(config["target_modules"], ["q_proj", "v_proj", "down_proj"])
        tensors = read_tensors(os.path.join(out, "adapter_model.safetensors"))
        self.assertEqual(len(tensors), 2 * 3 * 2)
        self.assertTrue(any(tensors["base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"][2]))
        merged = self.path("merged")
        self.succeed("merge", "--model", self.base, "--adapter", out, "--output", merged)
        # One step that learns nothing, for the loss alone.
        again = {"dtype": "fp32", "adapter": None, "lora_r": None, "max_steps": 1, "learning_rate": 0}
        before, _ = self.finish("before", **again)
        after, _ = self.finish("after", **again, base_model=merged)
        self.assertLess(self.eval_loss(out), self.eval_loss(before) - 0.05)
        self.assertAlmostEqual(self.eval_loss(after), self.eval_loss(out), delta=1e-4)

    def test_a_base_in_few_bits_streams_and_trains(self):
        plain, _ = self.finish("plain")
        for name, keys in (("nf4", {"adapter": "qlora"}), ("int8", {"quantization_bit": 8})):
            results = set()
            for idx, budgets in enumerate(({}, {"gpu_memory": "8MiB", "host_memory": "12MiB", "boundaries": "nvme"})):
                out, events = self.finish(f"{name}{idx}", **keys, **budgets)
                losses = losses_of(events)
                self.assertLess(losses[-1], losses[0])
                results.add((losses, fingerprint(out)))
            self.assertEqual(len(results), 1)
            self.assertNotEqual(fingerprint(out), fingerprint(plain))
            self.assertAlmostEqual(self.eval_loss(out), self.eval_loss(plain), delta=0.2)  # the base is random

    def test_a_base_that_comes_in_nf4_trains_as_one_that_becomes_it(self):
        made, events = self.finish("becomes", base_model=handbook_runs.base_model(), adapter="qlora")
        packed = handbook_runs.base_model("--quantize", "nf4")
        for name, keys in (("comes", {"adapter": "qlora"}), ("lora", {}),
                           ("drives", {"gpu_memory": "8MiB", "host_memory": "12MiB"})):
            out, found = self.finish(name, base_model=packed, **keys)
            self.assertEqual(losses_of(found), losses_of(events))
            self.assertEqual(fingerprint(out), fingerprint(made))
        _, words = self.words("whole", base_model=packed, adapter=None, lora_r=None)
        self.refuse(run("train", *words), 2, packed, "NF4", "adapter: qlora")
        self.refuse(run("merge", packed, out, self.path("merged")), 2, "quantized")
        self.refuse(run("export", packed, self.path("packed.gguf")), 2, "quantized")
        self.refuse(run("plan", "--model", packed), 2, "NF4", "adapter: qlora")
        self.refuse(run("model", "init", "falcon-40b", self.path("falcon"), "--quantize", "nf4"), 2, "query_key_value")

    def test_what_the_model_does_not_have_is_refused(self):
        _, words = self.words("refused", lora_target_modules=["q_proj", "query"])
        done = run("train", *words)
        self.assertEqual(done.returncode, 2)
        self.assertIn("lora_target_modules: query is not a matrix in a block of this model (llama); its blocks have q_proj",
                      done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
