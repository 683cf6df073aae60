#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many parameters a second torch's fused AdamW updates on this CPU, to lay beside `sluice bench adam`.

    bench_torch_adam.py [--size PARAMETERS] [--threads N] [--repeat ROUNDS]

Prints one JSON object with the fields of `sluice bench adam --json`. Weights, gradients and moments are f32, which is
the first case there; the second is bf16 throughout, moments too and without a master, which Sluice has no case for.
Needs torch 2.4 or later, where the fused AdamW came to CPUs.
"""
import argparse
import json
import os
import statistics
import time

import torch


def seconds_of(step, repeat):
    step()  # makes the moments
    step()
    rounds = []
    for _ in range(repeat):
        start = time.perf_counter()
        step()
        rounds.append(time.perf_counter() - start)
    return statistics.median(rounds)


def measure(dtype, size, repeat):
    weight = torch.empty(size, dtype=dtype).uniform_(-0.02, 0.02).requires_grad_()
    weight.grad = torch.empty(size, dtype=dtype).uniform_(-1e-3, 1e-3)
    optimizer = torch.optim.AdamW([weight], lr=1e-5, weight_decay=0.1, fused=True)
    seconds = seconds_of(optimizer.step, repeat)
    name = str(dtype).removeprefix("torch.").replace("float32", "f32").replace("bfloat16", "bf16")
    bytes_per_parameter = 7 * weight.element_size()  # four read, three written
    return {
        "weights": name,
        "gradients": name,
        "moments": name,
        "bytes_per_parameter": bytes_per_parameter,
        "parameters_per_s": size / seconds,
        "gb_per_s": bytes_per_parameter * size / seconds * 1e-9,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=64_000_000, help="parameters")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeat", type=int, default=7, help="rounds; medians are printed")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    cases = [measure(dtype, arguments.size, arguments.repeat) for dtype in (torch.float32, torch.bfloat16)]
    print(json.dumps({"cases": cases, "parameters": arguments.size, "torch": torch.__version__,
                      "threads": arguments.threads}))


if __name__ == "__main__":
    main()
