#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice plan` as a user meets it. Usage: plan_test.py SLUICE MACHINES"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SLUICE = sys.argv.pop(1)
MACHINES = sys.argv.pop(1)
LLAMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference", "models", "llama")
ADA = os.path.join(MACHINES, "one-ada.json")


def plan(*words, cache="/nonexistent"):
    return subprocess.run(
        [SLUICE, "plan", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "XDG_CACHE_HOME": cache},
    )


class Described(unittest.TestCase):
    def test_every_byte_is_within_its_budget(self):
        done = plan("--model", "llama-3.1-8b", "--machine", ADA, "--gpu-memory", "12GiB", "--accumulation", 4, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertTrue(found["fits"])
        self.assertEqual(found["memory"]["device"]["budget"], 12 << 30)
        for tier in found["memory"].values():
            parts = [tier[key] for key in ("weights", "gradients", "optimizer", "activations", "buffers", "checkpoints")]
            self.assertEqual(sum(parts), tier["total"])
            self.assertLessEqual(tier["total"], tier["budget"])
        self.assertAlmostEqual(sum(found["critical_s"].values()), found["step_s"], places=6)
        self.assertAlmostEqual(found["tokens_per_s"], 4 * 2048 / found["step_s"], places=3)

    def test_the_screen_fits_eighty_columns(self):
        done = plan("--model", "llama-3.1-70b", "--machine", ADA, "--accumulation", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        self.assertIn("bounds it", done.stdout)

    def test_shorter_moments_take_less(self):
        totals = []
        for optimizer in ("adamw_torch", "adamw_bf16", "adamw_8bit", "sgd"):
            done = plan("--model", "llama-3.1-8b", "--machine", ADA, "--optimizer", optimizer, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(done.stdout)
            self.assertEqual(found["schedule"]["optimizer"], optimizer)
            totals.append(sum(tier["optimizer"] for tier in found["memory"].values()))
        self.assertEqual(totals, sorted(totals, reverse=True))
        self.assertEqual(len(set(totals)), len(totals))

    def test_what_does_not_fit_comes_with_changes_that_do(self):
        words = ["--model", "llama-3.1-8b", "--machine", ADA, "--host-memory", "8GiB"]
        done = plan(*words, "--gpu-memory", "1GiB", "--json")
        self.assertEqual(done.returncode, 1)
        found = json.loads(done.stdout)
        self.assertFalse(found["fits"])
        change = next(change for change in found["changes"] if change["key"] == "gpu_memory")
        self.assertEqual(plan(*words, "--gpu-memory", change["request"]["gpu_memory"]).returncode, 0)

    def test_weights_have_their_say_where_they_can_be_read(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "model")
            shutil.copytree(LLAMA, folder)
            path = os.path.join(folder, "config.json")
            with open(path) as file:
                config = json.load(file)
            words = ["--model", folder, "--machine", ADA, "--json"]

            def weights():
                done = plan(*words)
                self.assertEqual(done.returncode, 0, done.stderr)
                return sum(tier["weights"] for tier in json.loads(done.stdout)["memory"].values()), done.stderr

            own = weights()
            with open(path, "w") as file:
                json.dump({**config, "tie_word_embeddings": True}, file)
            self.assertEqual(weights(), own)
            os.remove(os.path.join(folder, "model.safetensors"))
            self.assertLess(weights()[0], own[0])
            with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
                json.dump({"weight_map": {"lm_head.weight": "model-00001-of-00001.safetensors"}}, file)
            told = weights()[1]
            self.assertIn("planned with a tied head", told)
            self.assertIn("model-00001-of-00001.safetensors", told)

    def test_adapters_need_no_checkpoint(self):
        bytes_of = {}
        for adapter in (None, "lora", "qlora"):
            words = ["--adapter", adapter] if adapter else []
            done = plan("--model", "llama-3.1-70b", "--machine", ADA, *words, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            memory = json.loads(done.stdout)["memory"]
            bytes_of[adapter] = {part: sum(tier[part] for tier in memory.values()) for part in ("weights", "optimizer")}
        # 70.6e9 parameters: 2 bytes each, or a little more than half a byte with their scales, and few that move.
        self.assertGreater(bytes_of[None]["optimizer"], 20 * bytes_of["lora"]["optimizer"])
        self.assertGreater(bytes_of["lora"]["weights"], 130e9)
        self.assertLess(bytes_of["qlora"]["weights"], 60e9)
        shown = plan("--model", "llama-3.1-70b", "--machine", ADA, "--adapter", "qlora", "--lora-r", 8,
                     "--lora-target-modules", "q_proj,v_proj")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        # A rank of 8 on q (8192 x 8192) and v (1024 x 8192) of 80 layers.
        self.assertIn("adapter of rank 8 with 16.38 M", " ".join(shown.stdout.split()))
        self.assertIn("NF4", shown.stdout)

    def test_mistakes_are_one_sentence(self):
        for words, part in [
            (["--model", "llama-9", "--machine", ADA], "llama-9"),
            (["--model", "llama-3.1-80b", "--machine", ADA], "did you mean llama-3.1-8"),
            (["--model", "meta-llama/Llama-3.1-8B"], "hf download meta-llama/Llama-3.1-8B --local-dir Llama-3.1-8B"),
            (["llama-3.1-8b"], "sluice plan --model llama-3.1-8b"),
            (["--model", "llama-3.1-8b", "--machine", ADA, "--adapter", "dora"], "lora or qlora"),
            (["--model", "llama-3.1-8b", "--machine", ADA, "--adapter", "lora", "--lora-target-modules", "query"], "q_proj"),
            (["--model", "llama-3.1-8b", "--machine", ADA, "--sequence-len", 1], "2 to 16777216"),
            (["--model", "llama-3.1-8b", "--machine", ADA, "--micro-batch-size", 1 << 21], "1 to 1048576"),
            (["--model", "llama-3.1-8b", "--machine", ADA, "--micro-batch", 1], "did you mean --micro-batch-size?"),
            (["--model", "llama-3.1-8b", "--machine", "/nonexistent.json"], "/nonexistent.json"),
            (["--model", "llama-3.1-8b", "--machine", os.path.join(MACHINES, "four-ada.json")], "ranks"),
            (["--model", "llama-3.1-8b", "--machine", ADA, "--gpu-memory", "96GiB"], "gpu_memory"),
            (["--model", "llama-3.1-8b", "--machine", ADA, "--boundaries", "tape"], "tape"),
            (["--model", "llama-3.1-8b", "--machine", ADA, "--optimizer", "lion"], "adamw_8bit"),
            (["--model", "llama-3.1-8b", "--machine", ADA, "--wave", "2"], "wave_size"),
            (["--model", "llama-3.1-8b", "--machine", ADA, "--cache", "/tmp"], "--cache"),
        ]:
            done = plan(*words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertIn(part, done.stderr)


class ThisMachine(unittest.TestCase):
    def test_is_measured_once(self):
        with tempfile.TemporaryDirectory() as cache:
            words = ["--model", "llama-3.2-1b", "--layers", 1, "--sequence-len", 64, "--gpu-memory", "2GiB"]
            words += ["--host-memory", "8GiB", "--json"]
            path = os.path.join(cache, "sluice", "machine.json")
            first = plan(*words, cache=cache)
            self.assertEqual(first.returncode, 0, first.stderr)
            stamp = os.stat(path).st_mtime_ns
            self.assertEqual(plan(*words, cache=cache).stdout, first.stdout)
            self.assertEqual(os.stat(path).st_mtime_ns, stamp)
            with open(path, "w") as file:
                file.write("{")
            self.assertEqual(plan(*words, cache=cache).returncode, 0)
            self.assertNotEqual(os.stat(path).st_size, 1)


if __name__ == "__main__":
    unittest.main()
