#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice export --gguf`, read back by an independent reader. Usage: export_test.py SLUICE REPOSITORY"""

import json
import math
import os
import shutil
import struct
import sys
import tempfile
import unittest

from gguf_file import read_gguf
from safetensors_files import read_tensors, write_tensors
from sluice_process import interrupt_when, peak_bytes, run

REPOSITORY = sys.argv.pop(1)
MODELS = os.path.join(REPOSITORY, "tests", "reference", "models")
TOKENIZER = os.path.join(REPOSITORY, "examples", "handbook", "tokenizer")

# Of a block, as llama.cpp names them.
LLAMA_BLOCK = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
               "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
               "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
               "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
PHI_BLOCK = {**LLAMA_BLOCK, "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
GEMMA_BLOCK = {**LLAMA_BLOCK, "post_attention_layernorm": "post_attention_norm",
               "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
ENDS = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight"}


def gguf_name(name, block):
    if name in ENDS:
        return ENDS[name]
    _, _, layer, rest = name.split(".", 3)
    module, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{block[module]}.{kind}"


def unpair(values, rows, heads):
    """What llama.cpp's row order was made of: of each head, even rows first, then odd ones."""
    width, head_dim = len(values) // rows, rows // heads
    out = []
    for head in range(heads):
        for half in range(2):
            for pair in range(head_dim // 2):
                row = head * head_dim + 2 * pair + half
                out += values[row * width:(row + 1) * width]
    return out


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def f16(value):
    return struct.unpack("<e", struct.pack("<e", value))[0]


def q8_block(values):
    """ggml's reference, in single precision."""
    scale = f32(max(map(abs, values)) / 127)
    inverse = f32(1 / scale) if scale else 0.0
    wholes = []
    for value in values:
        scaled = f32(value * inverse)
        wholes.append(int(math.copysign(math.floor(abs(scaled) + 0.5), scaled)))
    return struct.pack("<e32b", scale, *wholes)


class Exporting(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.scratch.name, "model.gguf")

    def tearDown(self):
        self.scratch.cleanup()

    def export(self, folder, kind, *more):
        done = run("export", "--model", folder, "--gguf", self.file, "--type", kind, "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["size_bytes"], os.path.getsize(self.file))
        keys, tensors = read_gguf(self.file)
        self.assertEqual(report["tensors"], len(tensors))
        os.remove(self.file)
        return report, keys, tensors

    def copy_model(self, name, **changes):
        folder = os.path.join(self.scratch.name, name)
        os.makedirs(folder)
        with open(os.path.join(MODELS, name, "config.json")) as file:
            config = json.load(file)
        config.update(changes)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        shutil.copy(os.path.join(MODELS, name, "model.safetensors"), folder)
        return folder, config

    def assert_weights(self, folder, config, tensors, kind, block, paired=False, plus_one=False, made=()):
        source = read_tensors(os.path.join(folder, "model.safetensors"))
        self.assertEqual({gguf_name(name, block) for name in source} | set(made), set(tensors))
        for name, (_, shape, values) in source.items():
            got_kind, got_shape, got, raw = tensors[gguf_name(name, block)]
            self.assertEqual(got_shape, shape, name)
            if paired and ".q_proj" in name:
                got = unpair(got, shape[0], config["num_attention_heads"])
            if paired and ".k_proj" in name:
                got = unpair(got, shape[0], config["num_key_value_heads"])
            if plus_one and name.endswith("norm.weight"):
                values = [f32(value + 1) for value in values]
            if len(shape) == 1:
                self.assertEqual(got_kind, "F32", name)
                self.assertEqual(got, values, name)
                continue
            expected_kind = "F16" if kind == "q8_0" and shape[1] % 32 else kind.upper()
            self.assertEqual(got_kind, expected_kind, name)
            if got_kind == "F16":
                self.assertEqual(got, [f16(value) for value in values], name)
            elif got_kind == "Q8_0":
                for at in range(0, len(values), 32):
                    bound = max(map(abs, values[at:at + 32]))
                    for want, have in zip(values[at:at + 32], got[at:at + 32]):  # half a step, and the scale's rounding
                        self.assertLessEqual(abs(want - have), bound / 254 * 1.001 + bound / 2048 + 1e-7, name)
                if not (paired and (".q_proj" in name or ".k_proj" in name)):
                    self.assertEqual(raw, b"".join(q8_block(values[at:at + 32]) for at in range(0, len(values), 32)),
                                     name)
            else:
                self.assertEqual(got, values, name)  # the checkpoints are bf16

    def test_llama_in_every_type(self):
        folder, config = os.path.join(MODELS, "llama"), None
        with open(os.path.join(folder, "config.json")) as file:
            config = json.load(file)
        for kind, number in (("f32", 0), ("f16", 1), ("bf16", 32), ("q8_0", 7)):
            with self.subTest(kind):
                report, keys, tensors = self.export(folder, kind)
                self.assert_weights(folder, config, tensors, kind, LLAMA_BLOCK, paired=True)
                self.assertEqual(keys["general.file_type"], number)
                self.assertEqual((report["architecture"], report["tokenizer"]), ("llama", "none"))
        self.assertEqual({key: value for key, value in keys.items() if not key.startswith("general.")}, {
            "llama.block_count": 3, "llama.context_length": 64, "llama.embedding_length": 32,
            "llama.feed_forward_length": 52, "llama.vocab_size": 67, "llama.attention.head_count": 4,
            "llama.attention.head_count_kv": 4, "llama.attention.layer_norm_rms_epsilon": f32(1e-6),
            "llama.attention.key_length": 8, "llama.attention.value_length": 8, "llama.rope.dimension_count": 8,
            "llama.rope.freq_base": 10000.0, "tokenizer.ggml.model": "none"})
        self.assertEqual({key: value for key, value in keys.items() if key.startswith("general.")}, {
            "general.architecture": "llama", "general.type": "model", "general.name": "llama",
            "general.file_type": 7, "general.quantization_version": 2})

    def test_rows_of_q_and_k_are_paired_within_each_head(self):
        source = read_tensors(os.path.join(MODELS, "llama", "model.safetensors"))
        _, _, tensors = self.export(os.path.join(MODELS, "llama"), "f32")
        q = source["model.layers.1.self_attn.q_proj.weight"][2]
        rows = [q[row * 32:(row + 1) * 32] for row in range(32)]
        order = [0, 4, 1, 5, 2, 6, 3, 7]  # of a head of 8
        expected = [value for head in range(4) for row in order for value in rows[8 * head + row]]
        self.assertEqual(tensors["blk.1.attn_q.weight"][2], expected)
        self.assertEqual(tensors["blk.1.attn_v.weight"][2], source["model.layers.1.self_attn.v_proj.weight"][2])

    def test_every_family(self):
        for name, architecture, block, options in (
                ("mistral-head-dim", "llama", LLAMA_BLOCK, {"paired": True}),
                ("llama-biases-tied", "llama", LLAMA_BLOCK, {"paired": True}),
                ("qwen2", "qwen2", LLAMA_BLOCK, {}), ("qwen3", "qwen3", LLAMA_BLOCK, {}),
                ("phi3-window", "phi3", PHI_BLOCK, {})):
            with self.subTest(name):
                folder, config = self.copy_model(name)
                report, keys, tensors = self.export(folder, "bf16")
                self.assertEqual(keys["general.architecture"], architecture)
                self.assert_weights(folder, config, tensors, "bf16", block, **options)

    def test_gemma_s_norms_are_what_they_multiply_by(self):
        for name, architecture in (("gemma2", "gemma2"), ("gemma3", "gemma3")):
            folder, config = self.copy_model(name, query_pre_attn_scalar=8)
            _, keys, tensors = self.export(folder, "q8_0")
            self.assert_weights(folder, config, tensors, "q8_0", GEMMA_BLOCK, plus_one=True)
            self.assertEqual(keys[architecture + ".attention.sliding_window"], config["sliding_window"])
        self.assertEqual(keys["gemma3.attention.sliding_window_pattern"], 2)  # its own would be 6
        self.assertEqual((keys["gemma3.rope.freq_base"], keys["gemma3.rope.freq_base_swa"]), (1e6, 1e4))

    def test_stretched_ropes(self):
        folder, config = self.copy_model("llama-rope-llama3")
        _, keys, tensors = self.export(folder, "bf16")
        rope, expected = config["rope_parameters"], []
        for idx in range(config["head_dim"] // 2):
            wave = 2 * math.pi * rope["rope_theta"] ** (2 * idx / config["head_dim"])
            low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
            high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
            smooth = (rope["original_max_position_embeddings"] / wave - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"])
            expected.append(1 if wave < high else rope["factor"] if wave > low else
                            1 / ((1 - smooth) / rope["factor"] + smooth))
        self.assertGreater(len({round(value, 3) for value in expected}), 1)
        for got, want in zip(tensors["rope_freqs.weight"][2], expected, strict=True):
            self.assertAlmostEqual(got, want, delta=1e-5 * want)
        self.assertNotIn("llama.rope.scaling.type", keys)
        _, keys, _ = self.export(self.copy_model("llama-rope-linear")[0], "bf16")
        self.assertEqual(keys["llama.rope.scaling.type"], "linear")
        folder, config = self.copy_model("llama-rope-yarn")
        _, keys, _ = self.export(folder, "bf16")
        self.assertEqual(keys["llama.rope.scaling.type"], "yarn")
        self.assertEqual(keys["llama.rope.scaling.original_context_length"],
                         config["rope_parameters"]["original_max_position_embeddings"])
        folder, config = self.copy_model("phi3-longrope-long")
        _, keys, tensors = self.export(folder, "bf16")
        rope = config["rope_parameters"]
        self.assertEqual(tensors["rope_factors_long.weight"][2], [f32(value) for value in rope["long_factor"]])
        self.assertEqual(tensors["rope_factors_short.weight"][2], [f32(value) for value in rope["short_factor"]])
        self.assertAlmostEqual(keys["phi3.rope.scaling.attn_factor"], math.sqrt(1 + math.log(16) / math.log(16)), 5)
        self.assertEqual(keys["phi3.rope.scaling.original_context_length"], 16)

    def test_a_byte_level_tokenizer(self):
        base = os.path.join(self.scratch.name, "base")
        done = run("model", "init", "llama-tiny", base, "--layers", 1, "--tokenizer", TOKENIZER)
        self.assertEqual(done.returncode, 0, done.stderr)
        report, keys, tensors = self.export(base, "q8_0")
        with open(os.path.join(TOKENIZER, "tokenizer.json")) as file:
            tokenizer = json.load(file)
        with open(os.path.join(TOKENIZER, "tokenizer_config.json")) as file:
            config = json.load(file)
        tokens = keys["tokenizer.ggml.tokens"]
        self.assertEqual(len(tokens), tensors["token_embd.weight"][1][0])
        self.assertEqual(len(tokens), len(keys["tokenizer.ggml.token_type"]))
        ids = dict(tokenizer["model"]["vocab"])
        ids.update({token["content"]: token["id"] for token in tokenizer["added_tokens"]})
        self.assertEqual({tokens[id]: id for id in ids.values()}, ids)
        for token in tokenizer["added_tokens"]:
            self.assertEqual(keys["tokenizer.ggml.token_type"][token["id"]], 3 if token["special"] else 4)
        self.assertEqual(keys["tokenizer.ggml.token_type"][ids["a"]], 1)
        for id in range(len(ids), len(tokens)):
            self.assertEqual((tokens[id], keys["tokenizer.ggml.token_type"][id]), (f"[PAD{id}]", 5))
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
        self.assertEqual(keys["tokenizer.ggml.merges"], merges)
        self.assertEqual(keys["tokenizer.ggml.model"], "gpt2")
        self.assertEqual(keys["tokenizer.ggml.eos_token_id"], ids[config["eos_token"]])
        self.assertEqual(keys["tokenizer.chat_template"], config["chat_template"])
        self.assertNotIn("tokenizer.ggml.scores", keys)

    def write_tokenizer(self, folder, model, **more):
        with open(os.path.join(folder, "tokenizer.json"), "w") as file:
            json.dump({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
                       "post_processor": None, "decoder": None, "model": model, **more}, file)

    def test_words_are_cut_by_the_name_llama_cpp_has_for_the_pattern(self):
        letters = "'s|'t|'re|'ve|'m|'ll|'d"
        rest = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        llama3 = rf"(?i:{letters})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}" + rest
        qwen2 = rf"(?i:{letters})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}" + rest
        bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}

        def split(pattern):
            return {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, bytes_only]}
        folder, _ = self.copy_model("llama")
        for pre_tokenizer, ignore_merges, name in ((split(llama3), True, "llama-bpe"), (split(llama3), False, "dbrx"),
                                                   (split(qwen2), False, "qwen2"), (split(r"\s+|\S+"), False, "default"),
                                                   ({**bytes_only, "use_regex": True}, False, "gpt-2")):
            self.write_tokenizer(folder, {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]],
                                          "ignore_merges": ignore_merges}, pre_tokenizer=pre_tokenizer)
            report, keys, _ = self.export(folder, "f16")
            self.assertEqual(keys["tokenizer.ggml.pre"], name)
            self.assertEqual(keys["tokenizer.ggml.merges"], ["a b"])
            self.assertEqual(any("words" in note for note in report["notes"]), name == "default")

    def test_pieces_are_scored_in_the_order_of_their_merges(self):
        folder, _ = self.copy_model("llama")
        vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, "<0x0A>": 3, "\u2581": 4, "a": 5, "b": 6, "ab": 7, "\u2581ab": 8}
        special = [{"id": id, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                    "normalized": False, "special": True} for text, id in vocab.items() if id < 3]
        self.write_tokenizer(folder, {"type": "BPE", "vocab": vocab, "merges": ["a b", "\u2581 ab"], "unk_token": "<unk>",
                                      "byte_fallback": True, "fuse_unk": True}, added_tokens=special,
                             normalizer={"type": "Sequence", "normalizers": [
                                 {"type": "Prepend", "prepend": "\u2581"},
                                 {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
                             post_processor={"type": "TemplateProcessing", "pair": [], "single": [
                                 {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                 "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
            json.dump({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}, file)
        _, keys, _ = self.export(folder, "f16")
        self.assertEqual(keys["tokenizer.ggml.model"], "llama")
        self.assertEqual(keys["tokenizer.ggml.tokens"][:9], list(vocab))
        self.assertEqual(keys["tokenizer.ggml.token_type"][:10], [2, 3, 3, 6, 1, 1, 1, 1, 1, 5])
        scores = keys["tokenizer.ggml.scores"]
        self.assertGreater(scores[7], scores[8])
        self.assertGreater(scores[8], scores[5])
        self.assertEqual([keys[f"tokenizer.ggml.{name}_token_id"] for name in ("bos", "eos", "unknown")], [1, 2, 0])
        self.assertEqual([keys[f"tokenizer.ggml.add_{name}"] for name in ("bos_token", "eos_token", "space_prefix")],
                         [True, False, True])
        self.assertNotIn("tokenizer.ggml.merges", keys)

    def test_a_sentencepiece_file_keeps_its_scores(self):
        def field(number, body):
            assert len(body) < 128
            return bytes([number << 3 | 2, len(body)]) + body
        pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("\u2581a", -0.5, 1), ("\u2581", -1.5, 1), ("a", -2.5, 1)]
        model = b"".join(field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + bytes([0x18, kind]))
                         for text, score, kind in pieces)
        model += field(2, b"\x18\x02\xC0\x02\x00\xC8\x02\x01\xD0\x02\x02")  # BPE; ids of <unk>, <s>, </s>
        model += field(3, field(1, b"identity") + b"\x18\x01\x20\x00\x28\x01")
        folder, _ = self.copy_model("llama")
        with open(os.path.join(folder, "tokenizer.model"), "wb") as file:
            file.write(model)
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
            json.dump({"added_tokens_decoder": {"6": {"content": "<|end|>", "special": True},
                                                "7": {"content": "two\u2581words", "special": False}}}, file)
        _, keys, _ = self.export(folder, "f16")
        self.assertEqual(keys["tokenizer.ggml.tokens"][:9], [*(piece[0] for piece in pieces), "<|end|>", "two words",
                                                             "[PAD8]"])
        self.assertEqual(keys["tokenizer.ggml.scores"][:6], [piece[1] for piece in pieces])
        self.assertEqual(keys["tokenizer.ggml.token_type"][:9], [2, 3, 3, 1, 1, 1, 3, 4, 5])
        self.assertEqual((keys["tokenizer.ggml.model"], keys["tokenizer.ggml.bos_token_id"]), ("llama", 1))

    def assert_refused(self, folder, *parts, more=(), code=2):
        done = run("export", folder, self.file, *more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertEqual([name for name in os.listdir(self.scratch.name) if "gguf" in name], [])

    def test_what_llama_cpp_would_compute_otherwise_is_refused(self):
        self.assert_refused(os.path.join(MODELS, "falcon-7b"), "falcon")
        self.assert_refused(os.path.join(MODELS, "gemma2"), "query_pre_attn_scalar")
        self.assert_refused(os.path.join(MODELS, "qwen3-biases-tied"), "biases")
        self.assert_refused(os.path.join(MODELS, "llama"), "q4_k", more=("--type", "q4_k"))
        folder, _ = self.copy_model("gemma2", query_pre_attn_scalar=8)
        tensors = read_tensors(os.path.join(folder, "model.safetensors"))
        dtype, shape, values = tensors["model.embed_tokens.weight"]
        write_tensors(os.path.join(folder, "model.safetensors"),
                      tensors | {"lm_head.weight": (dtype, shape, [2 * value for value in values])})
        self.assert_refused(folder, "head of its own", "gemma2")
        folder, _ = self.copy_model("llama", intermediate_size=51)
        self.assert_refused(folder, "mlp", "(52, 32)", "(51, 32)", code=1)

    def test_a_tokenizer_of_more_tokens_than_rows_is_refused(self):
        folder, _ = self.copy_model("llama")
        self.write_tokenizer(folder, {"type": "BPE", "vocab": {chr(0x4E00 + id): id for id in range(68)}, "merges": []})
        self.assert_refused(folder, "67 rows")

    def test_a_tensor_without_a_place_is_refused(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "model")
            shutil.copytree(os.path.join(MODELS, "llama"), folder)
            path = os.path.join(folder, "config.json")
            with open(path) as file:
                config = json.load(file)
            config["num_hidden_layers"] -= 1
            with open(path, "w") as file:
                json.dump(config, file)
            done = run("export", "--model", folder, "--gguf", os.path.join(scratch, "out.gguf"))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("has no place in the model", done.stderr)

    def test_a_file_that_is_there_stays(self):
        with open(self.file, "w") as file:
            file.write("mine")
        done = run("export", os.path.join(MODELS, "llama"), self.file)
        self.assertEqual(done.returncode, 2, done.stderr)
        with open(self.file) as file:
            self.assertEqual(file.read(), "mine")


class Large(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.base = os.path.join(cls.scratch.name, "base")
        done = run("model", "init", "qwen2.5-0.5b", cls.base, "--layers", 2)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_memory_does_not_follow_the_model(self):
        out = os.path.join(self.scratch.name, "bounded.gguf")
        code, _, peak = peak_bytes("export", self.base, out)
        self.assertEqual(code, 0)
        self.assertGreater(os.path.getsize(out), 290 << 20)
        self.assertLess(peak, 120 << 20)

    def test_ctrl_c_leaves_nothing(self):
        out = os.path.join(self.scratch.name, "interrupted.gguf")
        code, errors = interrupt_when(lambda: os.path.exists(out + ".part"), "export", self.base, out)
        self.assertEqual(code, 130, errors)
        self.assertFalse([name for name in os.listdir(self.scratch.name) if "interrupted" in name])


if __name__ == "__main__":
    unittest.main()
