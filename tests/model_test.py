#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice model` and `sluice generate` as a user meets them. Usage: model_test.py SLUICE REFERENCE_MODELS"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from sluice_process import SLUICE, interrupt_when, peak_bytes, run, start

MODELS = sys.argv.pop(1)
LLAMA = os.path.join(MODELS, "llama")
MIB = 1 << 20


def generate(*words):
    return run("generate", "--threads", 2, *words)


class Refusals(unittest.TestCase):
    def assert_refused(self, done, code, *parts):
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("sluice: "), done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])


class Checkpoints(Refusals):
    """One random checkpoint, made once, larger than the budgets it is used with."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = os.path.join(cls.scratch.name, "model")
        cls.made = run("model", "init", "qwen2.5-0.5b", cls.folder, "--layers", 4, "--seed", 5, "--json")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_init_writes_what_it_says(self):
        self.assertEqual(self.made.returncode, 0, self.made.stderr)
        report = json.loads(self.made.stdout)
        # 151936 x 896 embeddings, tied; a block: qkv (14 + 4) 64 x 896 with biases, out 896 x 896, MLP 3 x 4864 x 896,
        # two norms; one norm at the end.
        block = 18 * 64 * 896 + 18 * 64 + 896 * 896 + 3 * 4864 * 896 + 2 * 896
        parameters = 151936 * 896 + 4 * block + 896
        self.assertEqual(report["parameters"], parameters)
        self.assertEqual(report["checkpoint_bytes"], 2 * parameters)
        self.assertEqual(sorted(os.listdir(self.folder)), ["config.json", "model.safetensors"])
        with open(os.path.join(self.folder, "model.safetensors"), "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        self.assertEqual(header["model.layers.3.self_attn.q_proj.bias"]["shape"], [896])
        self.assertNotIn("lm_head.weight", header)
        with open(os.path.join(self.folder, "config.json")) as file:
            self.assertEqual(json.load(file)["num_hidden_layers"], 4)

    def test_show_tells_the_same(self):
        report = json.loads(run("model", "show", self.folder, "--json").stdout)
        self.assertTrue(report["supported"])
        self.assertEqual(report["parameters"], json.loads(self.made.stdout)["parameters"])
        self.assertEqual((report["family"], report["dtype"], report["layers"], report["tied_head"]),
                         ("qwen2", "BF16", 4, True))
        self.assertEqual([slice["name"] for slice in report["slices"]], ["embedding", "embedding", "block", "norm"])
        shown = run("model", "show", self.folder)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        for part in ("qwen2", "Qwen2ForCausalLM", "151936", "supported"):
            self.assertIn(part, shown.stdout)

    def test_a_folder_that_holds_something_is_left_alone(self):
        before = sorted(os.listdir(self.folder))
        self.assert_refused(run("model", "init", "qwen2.5-0.5b", self.folder, "--layers", 1), 2, self.folder)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_streaming_changes_no_token(self):
        words = ["--model", self.folder, "--prompt-ids", "1,2,3", "--max-new-tokens", 3, "--greedy", "--json"]
        ids = []
        for host, weights in (("120MiB", "streamed"), ("2GiB", "resident")):  # a range of the embedding has 56 MiB
            done = generate(*words, "--host", host)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual(report["weights"], weights)
            ids.append(report["ids"])
        self.assertEqual(ids[0], ids[1])

    def test_a_budget_too_small_says_what_would_do(self):
        done = generate("--model", self.folder, "--prompt-ids", "1,2,3", "--max-new-tokens", 2, "--host", "40MiB")
        self.assert_refused(done, 1, "40 MiB", "raise --host", "at least")
        least = re.search(r"at least ([0-9.]+) (MiB|GiB)", done.stderr)
        done = generate("--model", self.folder, "--prompt-ids", "1,2,3", "--max-new-tokens", 2, "--host",
                        least[1] + least[2])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_ctrl_c_ends_generating(self):
        child = start("generate", "--model", self.folder, "--prompt-ids", "1,2,3", "--greedy", "--max-new-tokens",
                      100000, "--ignore-eos")
        self.assertTrue(child.stdout.read(1).isdigit())  # it is at work
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130, errors)
        self.assertTrue(errors.rstrip().splitlines()[-1].startswith("sluice: interrupted"), errors)


class Memory(unittest.TestCase):
    def make_sparse_model(self, folder, layers):
        """A Llama of zeros that takes no room on the drive: 32 MiB a layer."""
        hidden, intermediate, vocab = 1024, 4096, 1000
        os.mkdir(folder)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump({"model_type": "llama", "hidden_size": hidden, "intermediate_size": intermediate,
                       "num_hidden_layers": layers, "num_attention_heads": 8, "vocab_size": vocab}, file)
        shapes = {"model.embed_tokens.weight": [vocab, hidden], "lm_head.weight": [vocab, hidden],
                  "model.norm.weight": [hidden]}
        for idx in range(layers):
            for name in ("q", "k", "v", "o"):
                shapes[f"model.layers.{idx}.self_attn.{name}_proj.weight"] = [hidden, hidden]
            for name in ("gate", "up"):
                shapes[f"model.layers.{idx}.mlp.{name}_proj.weight"] = [intermediate, hidden]
            shapes[f"model.layers.{idx}.mlp.down_proj.weight"] = [hidden, intermediate]
            for name in ("input", "post_attention"):
                shapes[f"model.layers.{idx}.{name}_layernorm.weight"] = [hidden]
        header, end = {}, 0
        for name, shape in shapes.items():
            begin, end = end, end + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        with open(os.path.join(folder, "model.safetensors"), "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + end)
        return end

    def test_a_model_many_times_its_budget_streams_within_it(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "model")
            total = self.make_sparse_model(folder, layers=128)
            budget = 512 * MIB
            self.assertGreater(total, 4096 * MIB)
            code, out, peak = peak_bytes("generate", "--model", folder, "--prompt-ids", "1,2,3", "--max-new-tokens", 2,
                                         "--host", budget, "--threads", 2, "--json")
            self.assertEqual(code, 0)
            self.assertEqual(json.loads(out)["weights"], "streamed")
            self.assertLessEqual(peak, budget + 100 * MIB)


class Init(Refusals):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = os.path.join(scratch.name, "model")

    def test_a_shape_that_is_not_there_is_answered_with_those_that_are(self):
        self.assert_refused(run("model", "init", "llama-9-1t", self.folder), 2, "llama-9-1t", "llama-3.1-70b", "phi-4")
        self.assertFalse(os.path.exists(self.folder))

    def test_a_failure_after_the_weights_leaves_no_files(self):
        with tempfile.TemporaryDirectory() as scratch:
            tokenizer = os.path.join(scratch, "tokenizer")
            os.makedirs(os.path.join(tokenizer, "chat_template.jinja"))
            with open(os.path.join(tokenizer, "tokenizer.json"), "w") as file:
                json.dump({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}, file)
            out = os.path.join(scratch, "model")
            done = run("model", "init", "llama-3.2-1b", out, "--layers", 1, "--tokenizer", tokenizer)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("chat_template.jinja", done.stderr)
            self.assertEqual(os.listdir(out), [])

    def test_ctrl_c_leaves_no_files(self):
        code, errors = interrupt_when(lambda: os.path.isdir(self.folder) and os.listdir(self.folder), "model", "init",
                                      "llama-2-7b", self.folder, "--layers", 2)
        self.assertEqual(code, 130, errors)
        self.assertIn("interrupted", errors)
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_cannot_be_run_is_shown_with_the_reason(self):
        shutil.copytree(LLAMA, self.folder)
        path = os.path.join(self.folder, "config.json")
        with open(path) as file:
            config = json.load(file)
        with open(path, "w") as file:
            json.dump({**config, "model_type": "mamba"}, file)
        done = run("model", "show", self.folder, "--json")
        self.assertEqual(done.returncode, 1, done.stderr)  # so that a script notices
        report = json.loads(done.stdout)
        self.assertFalse(report["supported"])
        self.assertIn("mamba", report["unsupported"])
        self.assertEqual(run("model", "show", self.folder).returncode, 1)
        self.assert_refused(generate("--model", self.folder, "--prompt-ids", "1"), 2, path, "mamba")
        os.remove(path)
        self.assert_refused(run("model", "show", self.folder), 2, self.folder, "config.json")


class Show(unittest.TestCase):
    """What a folder holds for text: the files that are used, and why they cannot be."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = os.path.join(scratch.name, "model")
        shutil.copytree(LLAMA, self.folder)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))

    def report(self):
        done = run("model", "show", self.folder, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_files_of_text_go_by_the_names_they_are_used_under(self):
        self.assertEqual([self.report()[key] for key in ("tokenizer", "chat_template")], ["none", "none"])
        self.write("vocab.json", {"<|endoftext|>": 0, "a": 1})
        self.write("merges.txt", "#version: 0.2\n")
        self.write("tokenizer_config.json", {"chat_template": "{{ messages }}"})
        expected = {"tokenizer": "vocab.json", "chat_template": "tokenizer_config.json", "tokenizer_unsupported": None,
                    "chat_template_unsupported": None, "supported": True}
        self.assertEqual({**self.report(), **expected}, self.report())
        self.write("chat_template.json", {"chat_template": "{{ messages }}"})
        self.assertEqual(self.report()["chat_template"], "chat_template.json")
        self.write("additional_chat_templates/tool_use.jinja", "{{ messages }}")
        self.assertEqual(self.report()["chat_template"], "additional_chat_templates/tool_use.jinja")
        self.assertIn("called default; it has: tool_use", self.report()["chat_template_unsupported"])
        self.write("chat_template.jinja", "{{ messages }}")
        self.assertEqual(self.report()["chat_template"], "chat_template.jinja")
        done = generate("--model", self.folder, "--prompt-ids", "1", "--max-new-tokens", 1, "--json")
        self.assertIsNotNone(json.loads(done.stdout)["text"])

    def test_what_cannot_be_used_is_told_with_the_reason(self):
        self.write("tokenizer.json", {"model": {"type": "Magic"}})
        self.write("chat_template.jinja", "{% for m in %}")
        report = self.report()
        self.assertTrue(report["supported"])
        self.assertIn("Magic", report["tokenizer_unsupported"])
        self.assertIn("chat_template.jinja", report["chat_template_unsupported"])
        shown = run("model", "show", self.folder).stdout
        for part in ("yes, but not its tokenizer", "Magic", "chat_template.jinja"):
            self.assertIn(part, shown)


class Generate(Refusals):
    def ids(self, *words):
        done = generate("--model", LLAMA, "--prompt-ids", "1,5,9", "--ignore-eos", "--max-new-tokens", 20, "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["ids"]

    def test_greedy_is_always_the_same(self):
        first = self.ids("--greedy")
        self.assertEqual(len(first), 20)
        self.assertEqual(self.ids("--greedy", "--seed", 7), first)
        self.assertEqual(self.ids("--temperature", 0), first)

    def test_draws_follow_from_the_seed(self):
        first = self.ids("--temperature", 1, "--seed", 7)
        self.assertEqual(self.ids("--temperature", 1, "--seed", 7), first)
        self.assertNotEqual(self.ids("--temperature", 1, "--seed", 8), first)
        self.assertNotEqual(self.ids("--temperature", 1), self.ids("--temperature", 1))

    def test_json_has_the_promised_fields(self):
        done = generate("--model", LLAMA, "--prompt-ids", "1,5,9", "--max-new-tokens", 3, "--ignore-eos", "--json")
        report = json.loads(done.stdout)
        self.assertEqual(set(report), {"text", "ids", "prompt_ids", "finish_reason", "seed", "weights", "load_s",
                                       "prompt_tokens_per_s", "tokens_per_s"})
        self.assertEqual((report["text"], report["prompt_ids"], report["finish_reason"], report["weights"]),
                         (None, [1, 5, 9], "length", "resident"))

    def test_an_end_token_ends_it(self):
        ids = self.ids("--greedy")
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "model")
            shutil.copytree(LLAMA, folder)
            with open(os.path.join(folder, "generation_config.json"), "w") as file:
                json.dump({"eos_token_id": [ids[5], 66]}, file)
            done = generate("--model", folder, "--prompt-ids", "1,5,9", "--max-new-tokens", 20, "--json")
        report = json.loads(done.stdout)
        self.assertEqual(report["finish_reason"], "stop")
        self.assertEqual(report["ids"], ids[:ids.index(ids[5])])

    def test_what_the_makers_want_is_done_or_named(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "model")
            shutil.copytree(LLAMA, folder)

            def generate_as(makers, *options):
                with open(os.path.join(folder, "generation_config.json"), "w") as file:
                    json.dump(makers, file)
                return generate("--model", folder, "--prompt-ids", "1,5,9", "--ignore-eos", "--json", *options)

            done = generate_as({"max_length": 10, "num_beams": 4})
            self.assertEqual(len(json.loads(done.stdout)["ids"]), 7)
            self.assertIn("num_beams", done.stderr)
            self.assertIn("generation_config.json", done.stderr)
            self.assertEqual(generate_as({"max_new_tokens": 4, "max_length": 10}).stderr, "")
            done = generate_as({"max_length": 3})
            self.assert_refused(done, 2, "max_length is 3", "--max-new-tokens")
            self.assertEqual(generate_as({"max_length": 3}, "--max-new-tokens", 1).returncode, 0)
            # Makers may let more follow than there is memory for; a user is taken at their word.
            done = generate_as({"max_length": 100000}, "--host", "1MiB")
            self.assertRegex(done.stderr, r"allows 99997 new tokens, .* memory .* holds \d+: raise --host .*--max-new-tokens")
            self.assertIn(f"holds {len(json.loads(done.stdout)['ids'])}:", done.stderr)
            done = generate_as({"max_length": 100000}, "--host", "100KiB")
            self.assert_refused(done, 1, "100 KiB", "--host")
            done = generate_as({}, "--host", "1MiB", "--max-new-tokens", 100000)
            self.assert_refused(done, 1, "1 MiB", "--host")
            # Nobody says how many to draw among: 50, as in transformers. At this heat nearly any of the 67 would do.
            options = ["--temperature", 100, "--max-new-tokens", 200, "--seed", 3]
            ids = [json.loads(generate_as(makers, *options).stdout)["ids"]
                   for makers in ({}, {"top_k": 50}, {"top_k": 0})]
            self.assertEqual(ids[0], ids[1])
            self.assertNotEqual(ids[0], ids[2])

    def test_ids_need_no_tokenizer(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "model")
            shutil.copytree(LLAMA, folder)
            with open(os.path.join(folder, "tokenizer.json"), "w") as file:
                file.write("{}")
            done = generate("--model", folder, "--prompt-ids", "1,5,9", "--max-new-tokens", 2, "--json")
            self.assertEqual((done.returncode, json.loads(done.stdout)["text"]), (0, None))
            self.assertRegex(done.stderr, "^sluice: ids without their text: .*tokenizer.json")
            self.assert_refused(generate("--model", folder, "--prompt", "a"), 1, "tokenizer.json")

    def test_mistakes_are_one_sentence(self):
        self.assert_refused(generate("--model", LLAMA, "--prompt", "hello"), 2, LLAMA, "tokenizer")
        self.assert_refused(generate("--model", LLAMA, "--prompt-ids", "1,67"), 2, "67")
        self.assert_refused(generate("--model", LLAMA, "--prompt-ids", "1", "--top-p", 2), 2, "top_p")
        self.assert_refused(generate("--model", LLAMA, "--prompt-ids", "1", "--dtype", "f8"), 2, "f8", "bf16")
        self.assert_refused(generate("--model", LLAMA, "--prompt-ids", "1", "--host", "12 parsecs"), 2, "12 parsecs")
        self.assert_refused(generate("--model", os.path.join(LLAMA, "nowhere"), "--prompt-ids", "1"), 2, "nowhere")

    # Its number would go to the next file that is opened.
    def test_a_closed_standard_error_is_nobodys_file(self):
        code = "import os, sys; os.close(2); os.execv(sys.argv[1], sys.argv[1:])"
        done = subprocess.run([sys.executable, "-c", code, SLUICE, "generate", "--model", LLAMA, "--prompt-ids", "1,5,9",
                               "--max-new-tokens", "3"], stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(done.stdout.split()), 3)

    def test_a_pipe_is_not_waited_for(self):
        with tempfile.TemporaryDirectory() as scratch:
            for name in ("config.json", "model.safetensors", "generation_config.json"):
                folder = os.path.join(scratch, name.split(".")[0])
                shutil.copytree(LLAMA, folder)
                path = os.path.join(folder, name)
                if os.path.exists(path):
                    os.remove(path)
                os.mkfifo(path)
                self.assert_refused(generate("--model", folder, "--prompt-ids", "1"), 2, name, "pipe")

    def test_a_damaged_checkpoint_ends_with_one(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "model")
            shutil.copytree(LLAMA, folder)
            weights = os.path.join(folder, "model.safetensors")
            os.truncate(weights, os.path.getsize(weights) - 100)
            self.assert_refused(generate("--model", folder, "--prompt-ids", "1"), 1, weights)


if __name__ == "__main__":
    unittest.main()
