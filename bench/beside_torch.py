#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Matrix products and attention of an 8B model beside torch's, on the same card in the same run.

    bench/beside_torch.py CUDA_TEST      where torch is; CUDA_TEST as `scripts/build portable --target cuda_dist` makes it

Ours and torch's take turns, twice. A line each: both in TFLOP/s (medians of what was seen), and ours over torch's.
torch's attention is scaled_dot_product_attention through cuDNN, whose backward does not repeat; ours does, in the memory
that its line names. SLUICE_LIBRARY_PATH: where our program finds cuDNN and cuBLASLt, instead of LD_LIBRARY_PATH, which
torch would take its own from.
"""

import os
import re
import statistics
import subprocess
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

ROUNDS = 2
TOKENS = 12288
LAYERS = {
    "qkv": (6144, 4096),
    "attention out": (4096, 4096),
    "gate and up": (28672, 4096),
    "down": (4096, 14336),
}
ATTENTION_TOKENS, HEADS, KV_HEADS, HEAD_DIM = 12000, 32, 8, 128


def seconds(put):
    """Of one of many in a row, after as many that are not counted, as our test has it."""

    def run(count):
        start = time.perf_counter()
        for _ in range(count):
            put()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    run(3)
    guess = run(5)
    run(int(0.25 / guess) + 1)
    return run(int(0.35 / guess) + 1)


def some(*shape):
    """As ours: at the card's power limit the numbers count too."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def torch_products():
    """By the names that our test prints."""
    rates = {}
    for name, (out, inner) in LAYERS.items():
        flops = 2e-12 * TOKENS * out * inner
        x, w, dy = some(TOKENS, inner), some(out, inner), some(TOKENS, out)
        y, dx = torch.empty_like(dy), torch.empty_like(x)
        rates[f"{name}, forward"] = flops / seconds(lambda: torch.mm(x, w.t(), out=y))
        rates[f"{name}, gradient of the input"] = flops / seconds(lambda: torch.mm(dy, w, out=dx))
        # Ours is added to what is there, in f32.
        sums = torch.zeros(out, inner, device="cuda")
        try:
            rates[f"{name}, gradient of the weight, added f32"] = flops / seconds(
                lambda: torch.addmm(sums, dy.t(), x, out_dtype=torch.float32, out=sums))
        except (TypeError, RuntimeError) as error:  # a torch that cannot
            print(f"torch adds no f32 here: {error}", file=sys.stderr)
        # What torch's own backward does, half the bytes.
        dw = torch.empty_like(w)
        rates[f"{name}, gradient of the weight, overwritten bf16"] = flops / seconds(
            lambda: torch.mm(dy.t(), x, out=dw))
    return rates


def torch_attention(in_rows):
    """in_rows: heads beside one another in a token's row, as a projection leaves them and ours has them; else one after
    the other."""

    def heads(count):
        tensor = some(1, ATTENTION_TOKENS, count, HEAD_DIM).transpose(1, 2)
        return (tensor if in_rows else tensor.contiguous()).requires_grad_()

    q, k, v = heads(HEADS), heads(KV_HEADS), heads(KV_HEADS)
    flops = 2e-12 * ATTENTION_TOKENS**2 * HEADS * HEAD_DIM
    attend = torch.nn.functional.scaled_dot_product_attention
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        forward = seconds(lambda: attend(q, k, v, is_causal=True, enable_gqa=True))
        out = attend(q, k, v, is_causal=True, enable_gqa=True)
        dout = torch.randn_like(out)
        backward = seconds(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True))
    return {"forward": flops / forward, "backward": 2.5 * flops / backward}


def ours(program):
    output = subprocess.run(
        [program, "--gtest_also_run_disabled_tests",
         "--gtest_filter=CudaSpeed.DISABLED_Products:CudaAttentionSpeed.DISABLED_OneDocument"],
        capture_output=True, text=True, check=True,
        env={**os.environ, "LD_LIBRARY_PATH": os.environ.get("SLUICE_LIBRARY_PATH", "")}).stdout
    rates = {}
    for line in output.splitlines():
        found = re.match(r"(\S.*?)\s+([0-9.]+) ms\s+([0-9.]+) TFLOP/s", line)
        if found:
            rates[found[1]] = float(found[3])
    return rates, output


def main():
    seen, theirs = {}, {}
    for _ in range(ROUNDS):
        mine, output = ours(sys.argv[1])
        for name, rate in mine.items():
            seen.setdefault(name, []).append(rate)
        peer = {f"attention, {way}": rate for way, rate in torch_attention(in_rows=False).items()}
        peer.update({f"attention, {way}, heads in rows": rate for way, rate in torch_attention(in_rows=True).items()})
        peer.update(torch_products())
        for name, rate in peer.items():
            theirs.setdefault(name, []).append(rate)
        torch.cuda.empty_cache()
    print(f"torch {torch.__version__}, its cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
    for name, rates in seen.items():
        beside = name if name in theirs else f"attention, {name.rsplit(', ', 1)[1]}"
        if beside not in theirs:
            continue
        mine, peer = statistics.median(rates), statistics.median(theirs[beside])
        print(f"{name:72} {mine:7.1f}  torch {peer:7.1f}  ratio {mine / peer:.3f}   {rates} {[round(r, 1) for r in theirs[beside]]}")
    for name in theirs:
        if name.endswith(("overwritten bf16", "heads in rows")):
            print(f"{'torch alone: ' + name:72} {statistics.median(theirs[name]):7.1f}")
    print("\n".join(line for line in output.splitlines() if line.startswith("  ")))


main()
