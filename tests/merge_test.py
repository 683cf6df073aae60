#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice merge` as a user meets it, against sums made here in double. Usage: merge_test.py SLUICE REFERENCE_MODELS"""

import json
import os
import random
import shutil
import sys
import tempfile
import unittest

from safetensors_files import bf16_bits, bf16_value, read_tensors, write_tensors
from sluice_process import interrupt_when, peak_bytes, run

MODELS = sys.argv.pop(1)
LLAMA = os.path.join(MODELS, "llama")
Q0 = "model.layers.0.self_attn.q_proj"
DOWN2 = "model.layers.2.mlp.down_proj"


def noise(rng, rows, columns):
    return [rng.uniform(-0.3, 0.3) for _ in range(rows * columns)]


def product(b, a, rank):
    """(out, rank) by (rank, in), in double."""
    rows, columns = len(b) // rank, len(a) // rank
    return [[sum(b[i * rank + k] * a[k * columns + j] for k in range(rank)) for j in range(columns)]
            for i in range(rows)]


def write_adapter(folder, modules, config=None, whole=None):
    """modules: name to (rank, in, out); returns their matrices as the file has them."""
    rng = random.Random(3)
    os.makedirs(folder)
    tensors = {}
    for name, (rank, width, height) in modules.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = ("F32", (rank, width), noise(rng, rank, width))
        tensors[f"base_model.model.{name}.lora_B.weight"] = ("F32", (height, rank), noise(rng, height, rank))
    tensors.update(whole or {})
    write_tensors(os.path.join(folder, "adapter_model.safetensors"), tensors)
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "bias": "none",
                "target_modules": ["q_proj", "down_proj"], "fan_in_fan_out": False, "use_rslora": False,
                "use_dora": False, "rank_pattern": {}, "alpha_pattern": {}, "modules_to_save": None,
                "init_lora_weights": True, "lora_dropout": 0.05, "layer_replication": None}
    settings.update(config or {})
    with open(os.path.join(folder, "adapter_config.json"), "w") as file:
        json.dump(settings, file)
    return read_tensors(os.path.join(folder, "adapter_model.safetensors"))


class Merging(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.adapter = os.path.join(self.scratch.name, "adapter")
        self.out = os.path.join(self.scratch.name, "out")

    def tearDown(self):
        self.scratch.cleanup()

    def merge(self, base=LLAMA):
        done = run("merge", "--model", base, "--adapter", self.adapter, "--output", self.out, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), read_tensors(os.path.join(self.out, "model.safetensors"))

    def assert_refused(self, *parts, code=2, base=LLAMA):
        done = run("merge", base, self.adapter, self.out)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])
        self.assertFalse(os.path.exists(self.out))

    def assert_sum(self, merged, base, matrices, module, scale, transposed=False):
        dtype, shape, values = merged[module + ".weight"]
        self.assertEqual((dtype, shape), base[module + ".weight"][:2])
        _, (rank, _), a = matrices[f"base_model.model.{module}.lora_A.weight"]
        b = matrices[f"base_model.model.{module}.lora_B.weight"][2]
        delta = product(b, a, rank)
        before = base[module + ".weight"][2]
        changed = 0
        for row in range(shape[0]):
            for column in range(shape[1]):
                at = row * shape[1] + column
                want = before[at] + scale * (delta[column][row] if transposed else delta[row][column])
                if dtype == "BF16":  # one rounding, and a sum near the middle between two values may fall to either
                    lower, upper = (bf16_value(bf16_bits(want * (1 + sign * 1e-5))) for sign in (-1, 1))
                    self.assertIn(values[at], (lower, upper))
                else:
                    self.assertAlmostEqual(values[at], want, delta=1e-6)
                changed += values[at] != before[at]
        self.assertGreater(changed, shape[0] * shape[1] // 2)

    def test_the_sum_is_rounded_once_and_all_else_stays(self):
        matrices = write_adapter(self.adapter, {Q0: (4, 32, 32), DOWN2: (2, 52, 32)},
                                 {"rank_pattern": {"down_proj": 2}, "alpha_pattern": {"layers.2.mlp.down_proj": 3,
                                                                                      "down_proj": 100}})
        report, merged = self.merge()
        base = read_tensors(os.path.join(LLAMA, "model.safetensors"))
        self.assertEqual((report["merged_modules"], report["replaced_tensors"]), (2, 0))
        self.assertEqual(set(merged), set(base))
        self.assert_sum(merged, base, matrices, Q0, 8 / 4)
        self.assert_sum(merged, base, matrices, DOWN2, 3 / 2)
        for name in set(base) - {Q0 + ".weight", DOWN2 + ".weight"}:
            self.assertEqual(merged[name], base[name], name)
        with open(os.path.join(LLAMA, "config.json")) as one, open(os.path.join(self.out, "config.json")) as other:
            self.assertEqual(one.read(), other.read())
        self.assertEqual(sorted(os.listdir(self.out)), ["config.json", "model.safetensors"])

    def test_rslora_divides_by_the_root_of_the_rank(self):
        matrices = write_adapter(self.adapter, {Q0: (4, 32, 32)}, {"use_rslora": True})
        _, merged = self.merge()
        base = read_tensors(os.path.join(LLAMA, "model.safetensors"))
        self.assert_sum(merged, base, matrices, Q0, 8 / 4 ** 0.5)

    def test_modules_to_save_take_the_place_of_the_base_s(self):
        rng = random.Random(9)
        head = noise(rng, 67, 32)
        write_adapter(self.adapter, {}, {"modules_to_save": ["lm_head"]},
                      {"base_model.model.lm_head.weight": ("F32", (67, 32), head)})
        report, merged = self.merge()
        self.assertEqual(report["replaced_tensors"], 1)
        self.assertEqual(merged["lm_head.weight"][0], "BF16")
        self.assertEqual(merged["lm_head.weight"][2], [bf16_value(bf16_bits(value)) for value in head])

    def test_an_embedding_gains_the_turned_product(self):
        rng = random.Random(5)
        a, b = noise(rng, 4, 67), noise(rng, 32, 4)
        write_adapter(self.adapter, {}, {}, {
            "base_model.model.model.embed_tokens.lora_embedding_A": ("F32", (4, 67), a),
            "base_model.model.model.embed_tokens.lora_embedding_B": ("F32", (32, 4), b)})
        _, merged = self.merge()
        base = read_tensors(os.path.join(LLAMA, "model.safetensors"))["model.embed_tokens.weight"][2]
        delta = product(b, a, 4)
        for row in range(67):
            for column in range(32):
                want = base[row * 32 + column] + 2 * delta[column][row]
                self.assertAlmostEqual(merged["model.embed_tokens.weight"][2][row * 32 + column], want,
                                       delta=abs(want) / 200 + 1e-6)

    def test_gpt2_has_its_weights_turned_and_its_names_short(self):
        rng = random.Random(7)
        base_folder = os.path.join(self.scratch.name, "gpt2")
        os.makedirs(base_folder)
        with open(os.path.join(base_folder, "config.json"), "w") as file:
            json.dump({"model_type": "gpt2", "n_embd": 8, "vocab_size": 11}, file)
        write_tensors(os.path.join(base_folder, "model.safetensors"), {
            "wte.weight": ("F32", (11, 8), noise(rng, 11, 8)),
            "h.0.attn.c_attn.weight": ("F32", (8, 24), noise(rng, 8, 24)),
            "h.0.attn.c_attn.bias": ("F32", (24,), noise(rng, 1, 24)),
            "h.0.attn.c_proj.weight": ("F16", (8, 8), noise(rng, 8, 8))})
        base = read_tensors(os.path.join(base_folder, "model.safetensors"))
        matrices = write_adapter(self.adapter, {"transformer.h.0.attn.c_attn": (4, 8, 24),
                                                "transformer.h.0.attn.c_proj": (4, 8, 8)}, {"fan_in_fan_out": True})
        _, merged = self.merge(base_folder)
        short = {name.replace("transformer.", ""): value for name, value in matrices.items()}
        self.assert_sum(merged, base, short, "h.0.attn.c_attn", 2, transposed=True)
        delta = product(short["base_model.model.h.0.attn.c_proj.lora_B.weight"][2],
                        short["base_model.model.h.0.attn.c_proj.lora_A.weight"][2], 4)
        for at, value in enumerate(merged["h.0.attn.c_proj.weight"][2]):
            want = base["h.0.attn.c_proj.weight"][2][at] + 2 * delta[at % 8][at // 8]
            self.assertAlmostEqual(value, want, delta=abs(want) / 2000 + 1e-6)
        self.assertEqual(merged["h.0.attn.c_attn.bias"], base["h.0.attn.c_attn.bias"])

    def test_another_model_s_adapter_is_refused_by_tensor(self):
        write_adapter(self.adapter, {Q0: (4, 32, 64)})
        self.assert_refused(Q0 + ".lora_B.weight", "(64, 32)", "(32, 32)", "another model")
        shutil.rmtree(self.adapter)
        write_adapter(self.adapter, {Q0: (4, 48, 32)})
        self.assert_refused(Q0 + ".lora_A.weight", "(32, 48)", "(32, 32)")
        shutil.rmtree(self.adapter)
        write_adapter(self.adapter, {"model.layers.7.self_attn.q_proj": (4, 32, 32)})
        self.assert_refused("model.layers.7.self_attn.q_proj.weight", "no such tensor")

    def test_half_a_pair_is_refused(self):
        write_adapter(self.adapter, {}, {}, {f"base_model.model.{Q0}.lora_A.weight": ("F32", (4, 32), [0.0] * 128)})
        self.assert_refused(Q0 + ".lora_A.weight", "lora_B", code=1)

    def test_a_rank_that_the_config_does_not_say_is_refused(self):
        write_adapter(self.adapter, {Q0: (2, 32, 32)})
        self.assert_refused("rank 4", "(2, 32)", code=1)

    def test_what_is_no_plain_lora_is_refused_by_name(self):
        for config, part in (({"use_dora": True}, "DoRA"), ({"peft_type": "IA3"}, "IA3"), ({"bias": "all"}, "bias"),
                             ({"init_lora_weights": "pissa_niter_4"}, "pissa"), ({"lora_bias": True}, "lora_bias"),
                             ({"alpha_pattern": {".*q_proj": 1}}, "regular expression")):
            write_adapter(self.adapter, {Q0: (4, 32, 32)}, config)
            self.assert_refused(part)
            shutil.rmtree(self.adapter)

    def test_a_folder_without_an_adapter_is_refused(self):
        os.makedirs(self.adapter)
        self.assert_refused("adapter_config.json")
        write_adapter(self.adapter + "2", {Q0: (4, 32, 32)})
        shutil.copy(os.path.join(self.adapter + "2", "adapter_config.json"), self.adapter)
        self.assert_refused("adapter_model.safetensors")

    def test_a_folder_that_holds_something_is_left_alone(self):
        write_adapter(self.adapter, {Q0: (4, 32, 32)})
        os.makedirs(self.out)
        with open(os.path.join(self.out, "mine.txt"), "w") as file:
            file.write("mine")
        done = run("merge", LLAMA, self.adapter, self.out)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(os.listdir(self.out), ["mine.txt"])


class Large(unittest.TestCase):
    """A base of several pieces and shards' worth of bytes, larger than what may be held."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.base = os.path.join(cls.scratch.name, "base")
        done = run("model", "init", "qwen2.5-0.5b", cls.base, "--layers", 2)
        assert done.returncode == 0, done.stderr
        cls.adapter = os.path.join(cls.scratch.name, "adapter")
        write_adapter(cls.adapter, {Q0: (4, 896, 896)})

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_memory_does_not_follow_the_model(self):
        out = os.path.join(self.scratch.name, "bounded")
        code, _, peak = peak_bytes("merge", self.base, self.adapter, out)
        self.assertEqual(code, 0)
        self.assertGreater(os.path.getsize(os.path.join(out, "model.safetensors")), 290 << 20)
        self.assertLess(peak, 120 << 20)

    def test_ctrl_c_leaves_nothing(self):
        out = os.path.join(self.scratch.name, "interrupted")
        part = os.path.join(out, "model.safetensors.part")
        code, errors = interrupt_when(lambda: os.path.exists(part), "merge", self.base, self.adapter, out)
        self.assertEqual(code, 130, errors)
        self.assertIn("interrupted", errors)
        self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    unittest.main()
