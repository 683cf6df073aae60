#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Matrix products of bf16 on the CPU beside torch's (oneDNN), on the same cores in the same run.

    bench/cpu_gemm_beside_torch.py SLUICE [THREADS...]      where torch is; 2 threads unless said

Ours and torch's take turns, twice. A line each: both in GFLOP/s (medians of what was seen), ours over torch's, and both
over the peak of the AMX instruction that ours measured.
"""

import json
import os
import statistics
import subprocess
import sys
import time

import torch

ROUNDS = 2


def cpus():
    """Those this process may use, one of each core before any core's second."""
    found = []
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
                siblings = file.read()
        except OSError:
            siblings = str(cpu)
        found.append((sum(siblings == other for _, other, _ in found), siblings, cpu))
    return [cpu for _, _, cpu in sorted(found)]


CPUS = cpus()


def seconds(product):
    """The median of runs of some 50 ms, after one that is not counted."""
    start = time.perf_counter()
    product()
    count = int(0.05 / max(time.perf_counter() - start, 1e-6)) + 1
    found = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            product()
        found.append((time.perf_counter() - start) / count)
    return statistics.median(found)


def some(*shape):
    return torch.rand(*shape).mul_(2).sub_(1).bfloat16()


def torch_gflops(m, n, k, form):
    """The product as `sluice bench gemm` names it. Gradients of weights come as bf16 here, as f32 sums in ours."""
    if form == "x W^T":
        a, b = some(m, k), some(n, k).t()
    elif form == "dY W":
        a, b = some(m, k), some(k, n)
    else:
        a, b = some(k, m).t(), some(k, n)
    out = torch.empty(m, n, dtype=torch.bfloat16)
    return 2e-9 * m * n * k / seconds(lambda: torch.mm(a, b, out=out))


def main():
    program = sys.argv[1]
    for threads in [int(text) for text in sys.argv[2:]] or [2]:
        os.sched_setaffinity(0, CPUS[:threads])
        torch.set_num_threads(threads)
        ours, theirs, peaks = {}, {}, []
        for _ in range(ROUNDS):
            command = [program, "bench", "gemm", "--threads", str(threads), "--json"]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            if not found["amx_peak_gflops"]:
                sys.exit("this CPU has no AMX, whose peak products are compared with")
            peaks.append(found["amx_peak_gflops"])
            for case in found["cases"]:
                if case["dtype"] != "bf16" or case["m"] == 1:
                    continue
                shape = (case["m"], case["n"], case["k"], case["form"])
                ours.setdefault(shape, []).append(case["gflops"])
                theirs.setdefault(shape, []).append(torch_gflops(*shape))
        peak = statistics.median(peaks)
        print(f"{threads} threads, peak {peak:.0f} GFLOP/s")
        for shape in ours:
            our, their = statistics.median(ours[shape]), statistics.median(theirs[shape])
            m, n, k, form = shape
            print(f"{m:6} x {n:5} x {k:5} {form:7} {our:7.0f} torch {their:7.0f}: {our / their:5.2f}, "
                  f"of the peak {our / peak:.2f} torch {their / peak:.2f}")


main()
