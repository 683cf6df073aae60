#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference/training with transformers and torch: fifty steps of full fine-tuning in fp32.

    python3 tests/reference/make_training.py OUT [CASE ...]

Every case starts from the model of the same name in tests/reference/models (read in fp32) and writes CASE.safetensors:

    input_ids, labels   (tokens) i32: documents of all steps, one after the other; labels are shifted already, -100 where
                        nothing is to be predicted
    documents           (steps, micro-batches, documents) i32: lengths
    losses              (steps) f64: mean over all labels of the step, before its update
    norms               (steps) f64: of all gradients, before the clip
    learning_rates      (steps) f64: of the step's update
    final.NAME          weights after the last step

AdamW as torch has it, decay on matrices alone (as transformers' Trainer), clip_grad_norm_ to 1, cosine schedule with
warm-up. Made with transformers 5.17, torch 2.11.
"""
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, get_cosine_schedule_with_warmup

CASES = ["llama", "llama-biases-tied", "qwen3-biases-tied", "gemma3", "opt", "falcon-40b"]
STEPS, MICRO_BATCHES, WARMUP = 50, 3, 5
LEARNING_RATE, MAX_NORM = 2e-3, 1.0


def make(name, out_dir):
    here = os.path.dirname(os.path.abspath(__file__))
    model = AutoModelForCausalLM.from_pretrained(os.path.join(here, "models", name), dtype=torch.float32,
                                                 attn_implementation="eager").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=LEARNING_RATE, betas=(0.9, 0.95), eps=1e-8, foreach=False)
    schedule = get_cosine_schedule_with_warmup(optimizer, WARMUP, STEPS)
    generator = torch.Generator().manual_seed(7)
    ids, labels, lengths, losses, norms, rates = [], [], [], [], [], []
    # A few documents again and again, so that there is something to learn.
    pool = [torch.randint(3, model.config.vocab_size, (length,), generator=generator) for length in (9, 14, 5, 21, 1, 12, 17)]
    for step in range(STEPS):
        batches = []
        for batch in range(MICRO_BATCHES):
            chosen = [pool[int(torch.randint(0, len(pool), (1,), generator=generator))] for _ in range(2)]
            documents = []
            for tokens in chosen:
                target = torch.cat([tokens[1:], torch.tensor([-100])])
                target[: len(tokens) // 4] = -100
                documents.append((tokens, target))
            batches.append(documents)
        count = sum(int((target != -100).sum()) for documents in batches for _, target in documents)
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for documents in batches:
            lengths += [len(tokens) for tokens, _ in documents]
            for tokens, target in documents:
                ids.append(tokens)
                labels.append(target)
                out = model(input_ids=tokens[None], use_cache=False).logits[0]
                if (target != -100).any():
                    loss = torch.nn.functional.cross_entropy(out.float(), target, reduction="sum") / count
                    loss.backward()
                    total += float(loss.detach())
        for weight in model.parameters():
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)))
        rates.append(schedule.get_last_lr()[0])
        losses.append(total)
        optimizer.step()
        schedule.step()
    tensors = {
        "input_ids": torch.cat(ids).to(torch.int32),
        "labels": torch.cat(labels).to(torch.int32),
        "documents": torch.tensor(lengths, dtype=torch.int32).view(STEPS, MICRO_BATCHES, 2),
        "losses": torch.tensor(losses, dtype=torch.float64),
        "norms": torch.tensor(norms, dtype=torch.float64),
        "learning_rates": torch.tensor(rates, dtype=torch.float64),
    }
    for weight_name, weight in model.named_parameters():
        tensors["final." + weight_name] = weight.detach().clone()
    os.makedirs(out_dir, exist_ok=True)
    save_file({key: value.contiguous() for key, value in tensors.items()}, os.path.join(out_dir, name + ".safetensors"))
    print(f"{name:24} loss {losses[0]:.4f} to {losses[-1]:.4f}, norm {norms[0]:.3f} to {norms[-1]:.3f}", flush=True)


def main():
    torch.set_num_threads(4)
    for name in sys.argv[2:] or CASES:
        make(name, sys.argv[1])


if __name__ == "__main__":
    main()
