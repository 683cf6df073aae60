#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference/lora with transformers and torch: fifty steps of LoRA in fp32, in plain torch without PEFT.

    python3 tests/reference/make_lora.py OUT [CASE ...]

Every case starts from the model of the same name in tests/reference/models (read in fp32) and writes CASE.safetensors:

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
with warm-up. Made with transformers 5.17, torch 2.11.
"""
import json
import math
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, get_cosine_schedule_with_warmup

CASES = {
    "llama-biases-tied": {"rank": 4, "alpha": 8, "rslora": False, "targets": []},
    "phi3-partial-rotary-tied": {"rank": 3, "alpha": 6, "rslora": True, "targets": []},
    "falcon-40b": {"rank": 2, "alpha": 4, "rslora": False, "targets": ["query_key_value", "dense_4h_to_h"]},
    "gemma3": {"rank": 5, "alpha": 5, "rslora": False, "targets": ["q_proj", "v_proj", "up_proj"]},
}
STEPS, MICRO_BATCHES, WARMUP = 50, 3, 5
LEARNING_RATE, MAX_NORM = 1e-2, 1.0


class LoraLinear(torch.nn.Module):
    """y = x Wᵀ + bias + scale (x Aᵀ) Bᵀ; A and B alone are trained."""

    def __init__(self, base, rank, scale, generator):
        super().__init__()
        self.base = base
        self.scale = scale
        bound = 1 / math.sqrt(base.weight.shape[1])
        initial = torch.rand((rank, base.weight.shape[1]), generator=generator) * 2 * bound - bound
        self.lora_a = torch.nn.Parameter(initial)
        self.lora_b = torch.nn.Parameter(torch.zeros(base.weight.shape[0], rank))

    def forward(self, x):
        return self.base(x) + self.scale * ((x @ self.lora_a.T) @ self.lora_b.T)


def is_linear(name, module, targets):
    if name == "lm_head" or getattr(module, "weight", None) is None or module.weight.dim() != 2:
        return False
    if isinstance(module, torch.nn.Embedding):
        return False
    return not targets or name.split(".")[-1] in targets


def make(name, out_dir):
    settings = CASES[name]
    rank, alpha, targets = settings["rank"], settings["alpha"], settings["targets"]
    scale = alpha / math.sqrt(rank) if settings["rslora"] else alpha / rank
    here = os.path.dirname(os.path.abspath(__file__))
    model = AutoModelForCausalLM.from_pretrained(os.path.join(here, "models", name), dtype=torch.float32,
                                                 attn_implementation="eager").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(11)
    adapters = {}
    for module_name, module in list(model.named_modules()):
        if not is_linear(module_name, module, targets):
            continue
        parent = model.get_submodule(module_name.rpartition(".")[0])
        adapters[module_name] = LoraLinear(module, rank, scale, generator)
        setattr(parent, module_name.rpartition(".")[2], adapters[module_name])
    trained = [weight for adapter in adapters.values() for weight in (adapter.lora_a, adapter.lora_b)]
    tensors = {f"initial.base_model.model.{module}.lora_A.weight": adapter.lora_a.detach().clone()
               for module, adapter in adapters.items()}
    optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, foreach=False)
    schedule = get_cosine_schedule_with_warmup(optimizer, WARMUP, STEPS)
    pool = []
    for length in (9, 14, 5, 21, 1, 12, 17):
        tokens = torch.randint(3, model.config.vocab_size, (length,), generator=generator)
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
            out = model(input_ids=tokens[None], use_cache=False).logits[0]
            loss = torch.nn.functional.cross_entropy(out.float(), target, reduction="sum") / count
            loss.backward()
            total += float(loss.detach())
        norms.append(float(torch.nn.utils.clip_grad_norm_(trained, MAX_NORM)))
        rates.append(schedule.get_last_lr()[0])
        losses.append(total)
        optimizer.step()
        schedule.step()
    tensors.update({
        "input_ids": torch.cat([tokens for tokens, _ in pool]).to(torch.int32),
        "labels": torch.cat([target for _, target in pool]).to(torch.int32),
        "documents": torch.tensor([len(tokens) for tokens, _ in pool], dtype=torch.int32),
        "order": torch.tensor(order, dtype=torch.int32),
        "losses": torch.tensor(losses, dtype=torch.float64),
        "norms": torch.tensor(norms, dtype=torch.float64),
        "learning_rates": torch.tensor(rates, dtype=torch.float64),
        "scale": torch.tensor([scale], dtype=torch.float64),
    })
    for module, adapter in adapters.items():
        tensors[f"final.base_model.model.{module}.lora_A.weight"] = adapter.lora_a.detach().clone()
        tensors[f"final.base_model.model.{module}.lora_B.weight"] = adapter.lora_b.detach().clone()
    os.makedirs(out_dir, exist_ok=True)
    save_file({key: value.contiguous() for key, value in tensors.items()}, os.path.join(out_dir, name + ".safetensors"),
              metadata={key: json.dumps(value) for key, value in settings.items()})
    print(f"{name:24} loss {losses[0]:.4f} to {losses[-1]:.4f}, norm {norms[0]:.3f} to {norms[-1]:.3f}", flush=True)


def main():
    torch.set_num_threads(4)
    for name in sys.argv[2:] or CASES:
        make(name, sys.argv[1])


if __name__ == "__main__":
    main()
