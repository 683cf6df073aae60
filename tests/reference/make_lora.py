#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference/lora with torch alone: fifty steps of LoRA in fp32, on a decoder in plain torch, without PEFT.

    make_lora.py OUT [CASE ...]

Every case starts from the model of the same name in tests/reference/models, read in fp32. The plain decoder is first
held against the logits that transformers computed for that model. Then CASE.safetensors is written:

    input_ids, labels    (tokens) i32: a pool of documents, one after the other; labels are shifted already, -100 where
                         nothing is to be predicted
    documents            (documents) i32: their lengths
    order                (steps, micro-batches, 2) i32: which documents a micro-batch has
    losses               (steps) f64: mean over all labels of the step, before its update
    norms                (steps) f64: of all adapter gradients, before the clip
    learning_rates       (steps) f64: of the step's update
    scale                (1) f64: what the product of the two matrices is multiplied by
    initial.NAME         lora_A weights before the first step; lora_B weights are zeros
    final.NAME           adapter weights after the last step

NAME is what PEFT calls the tensor: base_model.model.MODULE.lora_A.weight. The metadata says rank, alpha, whether the
scale is that of rsLoRA, and the targets. AdamW as torch has it with decay 0.1, clip_grad_norm_ to 1, cosine schedule
with warm-up. Made with Debian's torch 1.13.
"""
import json
import math
import os
import struct
import sys

import numpy
import torch

CASES = {
    "llama-biases-tied": {"rank": 4, "alpha": 8, "rslora": False, "targets": []},
    "phi3-partial-rotary-tied": {"rank": 3, "alpha": 6, "rslora": True, "targets": []},
    "qwen3": {"rank": 5, "alpha": 5, "rslora": False, "targets": ["q_proj", "v_proj", "up_proj"]},
}
STEPS, MICRO_BATCHES, WARMUP = 50, 3, 5
LEARNING_RATE, MAX_NORM = 1e-2, 1.0
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        raw = data[slice(*entry["data_offsets"])]
        if entry["dtype"] == "BF16":
            values = (numpy.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = numpy.frombuffer(raw, {"F32": "<f4", "I32": "<i4"}[entry["dtype"]])
        tensors[name] = torch.from_numpy(values.reshape(entry["shape"]).copy())
    return tensors


def write_safetensors(path, tensors, metadata):
    kinds = {torch.float32: "F32", torch.float64: "F64", torch.int32: "I32"}
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in sorted(tensors.items()):
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Decoder:
    """Llama, Phi-3 and Qwen3, one document at a time: RMS norms, half-split rotary, SwiGLU; q, k, v and gate, up fused
    or apart. linear(module, x) is the only way to a weight matrix of a block, so that adapters can be put there."""

    def __init__(self, name):
        with open(os.path.join(MODELS, name, "config.json")) as file:
            self.config = json.load(file)
        self.weights = read_safetensors(os.path.join(MODELS, name, "model.safetensors"))
        self.adapters = {}
        self.scale = 0.0
        config = self.config
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_dim = config.get("head_dim") or config["hidden_size"] // self.heads
        self.turned = int(self.head_dim * config.get("partial_rotary_factor", 1.0))

    def modules(self):
        return [name[: -len(".weight")] for name, tensor in self.weights.items()
                if name.startswith("model.layers.") and name.endswith(".weight") and tensor.dim() == 2]

    def linear(self, module, x):
        y = x @ self.weights[module + ".weight"].T
        if module + ".bias" in self.weights:
            y = y + self.weights[module + ".bias"]
        if module in self.adapters:
            a, b = self.adapters[module]
            y = y + self.scale * ((x @ a.T) @ b.T)
        return y

    def norm(self, name, x):
        mean = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(mean + self.config["rms_norm_eps"]) * self.weights[name + ".weight"]

    def rotate(self, x):  # (tokens, heads, head_dim)
        half = self.turned // 2
        theta = self.config["rope_parameters"]["rope_theta"]
        rates = theta ** -(torch.arange(half, dtype=torch.float32) * 2 / self.turned)
        angles = torch.arange(x.shape[0], dtype=torch.float32)[:, None] * rates
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        first, second, rest = x[..., :half], x[..., half:self.turned], x[..., self.turned:]
        return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)

    def attention(self, at, x):
        tokens, size = x.shape[0], self.head_dim
        q_width, kv_width = self.heads * size, self.kv_heads * size
        if at + ".qkv_proj.weight" in self.weights:
            q, k, v = self.linear(at + ".qkv_proj", x).split([q_width, kv_width, kv_width], -1)
        else:
            q, k, v = (self.linear(f"{at}.{which}_proj", x) for which in "qkv")
        q, k, v = (part.view(tokens, -1, size) for part in (q, k, v))
        if at + ".q_norm.weight" in self.weights:
            q, k = self.norm(at + ".q_norm", q), self.norm(at + ".k_norm", k)
        q, k = self.rotate(q), self.rotate(k)
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, 1) for part in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(size)
        unseen = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(unseen, float("-inf")).softmax(-1)
        return self.linear(at + ".o_proj", torch.einsum("hqk,khd->qhd", scores, v).reshape(tokens, q_width))

    def mlp(self, at, x):
        if at + ".gate_up_proj.weight" in self.weights:
            gate, up = self.linear(at + ".gate_up_proj", x).chunk(2, -1)
        else:
            gate, up = self.linear(at + ".gate_proj", x), self.linear(at + ".up_proj", x)
        return self.linear(at + ".down_proj", torch.nn.functional.silu(gate) * up)

    def logits(self, ids):
        x = self.weights["model.embed_tokens.weight"][ids]
        for layer in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{layer}"
            x = x + self.attention(at + ".self_attn", self.norm(at + ".input_layernorm", x))
            x = x + self.mlp(at + ".mlp", self.norm(at + ".post_attention_layernorm", x))
        head = "model.embed_tokens.weight" if self.config["tie_word_embeddings"] else "lm_head.weight"
        return self.norm("model.norm", x) @ self.weights[head].T


def check_decoder(name, decoder):
    expected = read_safetensors(os.path.join(MODELS, name, "expected.safetensors"))
    first, found = 0, []
    for length in expected["documents"].tolist():
        found.append(decoder.logits(expected["input_ids"][first:first + length].long()))
        first += length
    error = float((torch.cat(found) - expected["logits"]).norm() / expected["logits"].norm())
    if error > 1e-5:
        sys.exit(f"{name}: the plain decoder's logits are {error:.1e} away from those of transformers")
    return error


def rate(step):
    if step < WARMUP:
        return LEARNING_RATE * step / WARMUP
    return LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def make(name, out_dir):
    settings = CASES[name]
    rank, alpha, targets = settings["rank"], settings["alpha"], settings["targets"]
    decoder = Decoder(name)
    error = check_decoder(name, decoder)
    decoder.scale = alpha / math.sqrt(rank) if settings["rslora"] else alpha / rank
    generator = torch.Generator().manual_seed(11)
    tensors = {"scale": torch.tensor([decoder.scale], dtype=torch.float64)}
    for module in decoder.modules():
        if targets and module.split(".")[-1] not in targets:
            continue
        outputs, inputs = decoder.weights[module + ".weight"].shape
        initial = (torch.rand((rank, inputs), generator=generator) * 2 - 1) / math.sqrt(inputs)
        tensors[f"initial.base_model.model.{module}.lora_A.weight"] = initial
        decoder.adapters[module] = (torch.nn.Parameter(initial.clone()), torch.nn.Parameter(torch.zeros(outputs, rank)))
    trained = [weight for pair in decoder.adapters.values() for weight in pair]
    optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, foreach=False)
    pool = []
    for length in (9, 14, 5, 21, 1, 12, 17):
        tokens = torch.randint(3, decoder.config["vocab_size"], (length,), generator=generator)
        target = torch.cat([tokens[1:], torch.tensor([-100])])
        target[: length // 4] = -100
        pool.append((tokens, target))
    order, losses, norms, rates = [], [], [], []
    for step in range(STEPS):
        batches = [[int(torch.randint(0, len(pool), (1,), generator=generator)) for _ in range(2)]
                   for _ in range(MICRO_BATCHES)]
        if all(len(pool[document][0]) == 1 for batch in batches for document in batch):
            batches[0][0] = 0
        order.append(batches)
        chosen = [pool[document] for batch in batches for document in batch]
        count = sum(int((target != -100).sum()) for _, target in chosen)
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for tokens, target in chosen:
            if not (target != -100).any():
                continue
            loss = torch.nn.functional.cross_entropy(decoder.logits(tokens), target, reduction="sum") / count
            loss.backward()
            total += float(loss.detach())
        norms.append(float(torch.nn.utils.clip_grad_norm_(trained, MAX_NORM)))
        rates.append(rate(step))
        losses.append(total)
        optimizer.param_groups[0]["lr"] = rate(step)
        optimizer.step()
    tensors.update({
        "input_ids": torch.cat([tokens for tokens, _ in pool]).to(torch.int32),
        "labels": torch.cat([target for _, target in pool]).to(torch.int32),
        "documents": torch.tensor([len(tokens) for tokens, _ in pool], dtype=torch.int32),
        "order": torch.tensor(order, dtype=torch.int32),
        "losses": torch.tensor(losses, dtype=torch.float64),
        "norms": torch.tensor(norms, dtype=torch.float64),
        "learning_rates": torch.tensor(rates, dtype=torch.float64),
    })
    for module, (a, b) in decoder.adapters.items():
        tensors[f"final.base_model.model.{module}.lora_A.weight"] = a.detach().clone()
        tensors[f"final.base_model.model.{module}.lora_B.weight"] = b.detach().clone()
    os.makedirs(out_dir, exist_ok=True)
    write_safetensors(os.path.join(out_dir, name + ".safetensors"), tensors,
                      {key: json.dumps(value) for key, value in settings.items()})
    print(f"{name:24} logits {error:.1e} from transformers; loss {losses[0]:.4f} to {losses[-1]:.4f}, "
          f"norm {norms[0]:.3f} to {norms[-1]:.3f}", flush=True)


def main():
    torch.set_num_threads(1)
    for name in sys.argv[2:] or CASES:
        make(name, sys.argv[1])


if __name__ == "__main__":
    main()
