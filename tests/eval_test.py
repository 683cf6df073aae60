#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end: `sluice eval` beside what training reports, and adapters applied to their base. Usage: eval_test.py SLUICE
REPOSITORY"""
import json
import math
import os
import re
import shutil
import unittest

from handbook_runs import HELD_OUT, TRAIN, HandbookRuns, trainer_state
from sluice_process import run

KEYS = ("--sequence-len", 128, "--threads", 2, "--json")


class Evaluations(HandbookRuns):
    base_words = ("--dtype", "f32")  # a merge in bf16 rounds once more
    settings = {"test_datasets": [{"path": HELD_OUT}], "gradient_accumulation_steps": 4, "learning_rate": 1e-2,
                "save_strategy": "no", "eval_strategy": "no", "max_steps": 4, "threads": 2}

    def reported_loss(self, out):
        return [entry["eval_loss"] for entry in trainer_state(out)["log_history"] if "eval_loss" in entry][-1]

    def evaluate(self, *words):
        return json.loads(self.succeed("eval", *words, *KEYS).stdout)

    def test_the_loss_is_what_training_reports_for_held_out_rows(self):
        out, _ = self.finish("whole")
        found = self.evaluate(out, HELD_OUT)
        self.assertAlmostEqual(found["loss"], self.reported_loss(out), delta=1e-6)
        self.assertAlmostEqual(found["perplexity"], math.exp(found["loss"]), delta=1e-6)
        with open(HELD_OUT) as file:
            self.assertEqual(found["rows"], len(file.readlines()))
        checked = json.loads(self.succeed("data", "check", HELD_OUT, "--model", self.base, "--sequence-len", 128,
                                          "--json").stdout)
        self.assertEqual((found["tokens"], found["tokens_read"]), (checked["trained_tokens"], checked["tokens"]))
        self.assertGreater(self.evaluate(self.base, HELD_OUT)["loss"], found["loss"] + 0.05)
        self.assertEqual(self.evaluate(HELD_OUT, "--model", out)["loss"], found["loss"])
        # Other settings are other numbers: the mask and the length count.
        self.assertNotAlmostEqual(self.evaluate(out, HELD_OUT, "--train-on-inputs")["loss"], found["loss"], delta=1e-3)
        # How rows are packed does not.
        for words in (("--no-packing",), ("--micro-batch-size", 4)):
            self.assertAlmostEqual(self.evaluate(out, HELD_OUT, *words)["loss"], found["loss"], delta=2e-3)

    def test_one_document_a_sequence_is_as_in_training(self):
        out, _ = self.finish("unpacked", sample_packing=False, micro_batch_size=2)
        found = self.evaluate(out, HELD_OUT, "--no-packing", "--micro-batch-size", 2)
        self.assertAlmostEqual(found["loss"], self.reported_loss(out), delta=1e-6)

    def test_an_adapter_counts_as_in_training_and_as_merged(self):
        out, _ = self.finish("tuned", adapter="lora", lora_r=4, use_rslora=True, dtype="fp32")
        merged = self.path("merged")
        found = self.evaluate(self.base, HELD_OUT, "--adapter", out, "--dtype", "f32")
        self.assertAlmostEqual(found["loss"], self.reported_loss(out), delta=1e-6)
        # The base is the one that the adapter names.
        self.assertEqual(self.evaluate("--adapter", out, HELD_OUT, "--dtype", "f32")["loss"], found["loss"])
        self.succeed("merge", self.base, out, merged)
        self.assertAlmostEqual(self.evaluate(merged, HELD_OUT, "--dtype", "f32")["loss"], found["loss"], delta=1e-5)
        words = ("--prompt", "The gate", "--max-new-tokens", 12, "--greedy", "--ignore-eos", "--threads", 2, "--dtype", "f32",
                 "--json")
        adapted, whole, base = (json.loads(self.succeed("generate", *more, *words).stdout)
                                for more in (("--adapter", out), (merged,), (self.base,)))
        self.assertEqual(len(adapted["ids"]), 12)
        self.assertEqual(adapted["ids"], whole["ids"])
        self.assertNotEqual(adapted["ids"], base["ids"])
        for more in ((self.base, "--adapter", out), ("--model", self.base, "--adapter", out)):
            self.assertEqual(json.loads(self.succeed("generate", *more, *words).stdout)["ids"], adapted["ids"])

    def test_an_adapter_given_as_a_model_is_answered_with_the_command(self):
        out, _ = self.finish("given", adapter="lora", lora_r=4)
        for words in (("generate", out, "--prompt", "The gate"), ("model", "show", out), ("export", out, "x.gguf"),
                      ("eval", out, HELD_OUT), ("merge", out, out, self.path("nothing"))):
            self.refuse(run(*words), 2, f"is an adapter of {self.base}", f"sluice generate --model {self.base} --adapter {out}",
                        "sluice merge")
        done = run("train", *self.words("again", base_model=out)[1])
        self.refuse(done, 2, f"is an adapter of {self.base}")
        # The command that is given works.
        done = run("generate", out, "--prompt", "The gate")
        command = re.search(r"'sluice (generate[^']*)'", done.stderr)[1].split()
        self.succeed(*command, "--prompt", "The gate", "--max-new-tokens", 1)
        # A configuration that names no base, and a base that is not there.
        bare = self.path("bare")
        shutil.copytree(out, bare)
        path = os.path.join(bare, "adapter_config.json")
        with open(path) as file:
            config = json.load(file)
        for base, parts in ((None, ("base_model_name_or_path", "--model")),
                            ("meta-llama/Llama-9", ("hf download meta-llama/Llama-9 --local-dir Llama-9",))):
            with open(path, "w") as file:
                json.dump({**config, "base_model_name_or_path": base}, file)
            self.refuse(run("generate", "--adapter", bare, "--prompt", "The gate"), 2, *parts)

    def test_a_small_budget_streams_and_changes_no_bit(self):
        folder = self.path("large")
        self.succeed("model", "init", "llama-3.2-1b", folder, "--layers", 1, "--tokenizer",
                     os.path.join(self.base))
        rows = self.path("few.jsonl")
        with open(HELD_OUT) as file, open(rows, "w") as few:
            few.writelines(file.readlines()[:3])
        results = [self.evaluate(folder, rows, "--host", host) for host in ("2GiB", "420MiB", "300MiB")]
        self.assertEqual([result["weights"] for result in results], ["resident", "streamed", "streamed"])
        self.assertEqual(len({result["loss"] for result in results}), 1)
        self.refuse(run("eval", folder, rows, *KEYS, "--host", "64MiB"), 1, "at least", "raise --host")

    def test_mistakes_are_one_sentence(self):
        missing = self.path("missing.jsonl")
        self.refuse(run("eval", self.base), 2, "name data files")
        self.refuse(run("eval"), 2, "sluice eval MODEL")
        self.refuse(run("eval", self.base, missing), 2, missing, "check the path")
        self.refuse(run("eval", missing, "--model", self.base), 2, missing, "check the path")
        self.refuse(run("eval", self.base, "org/rows"), 2, "hf download --repo-type dataset org/rows --local-dir rows")
        _, words = self.words("hub", datasets=[{"path": "org/rows"}])
        self.refuse(run("train", *words), 2, "hf download --repo-type dataset org/rows --local-dir rows")
        self.refuse(run("eval", "org/model", HELD_OUT), 2, "hf download org/model --local-dir model")
        self.refuse(run("eval", self.base, self.base), 2, self.base, "is a directory")
        bad = self.path("bad.jsonl")
        with open(bad, "w") as file, open(TRAIN) as good:
            file.write(good.readline() + '{"messages": 3}\n')
        self.refuse(run("eval", self.base, bad, *KEYS), 2, bad, "2")
        found = self.evaluate(self.base, bad, "--skip-bad")
        self.assertEqual((found["rows"], found["bad_rows"]), (1, 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
