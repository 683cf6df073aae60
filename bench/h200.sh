#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures of docs/performance.md, on a machine with one large card, 125 GiB of memory and 64 GiB of free disk:
#   scripts/build portable --target dist; scripts/build portable --target cuda_dist
#   bench/h200.sh DIST CUDA_DIST [NAME...]      the folders made above; which figures, instead of all
# Each prints a line: name, tokens/s, seconds a step, planned seconds, the busiest lane and its seconds, what
# the drives need at their measured speeds, MiB on the card, seconds before the first step.
# cuDNN and cuBLASLt are found through LD_LIBRARY_PATH. Results stay in $OUT, or in /tmp/sluice-h200. STEPS: that are
# measured in each, 2 unless said. `torch` needs it in python3.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
dist=$(realpath "${1:?usage: bench/h200.sh DIST CUDA_DIST [NAME...]}")
tests=$(realpath "${2:?usage: bench/h200.sh DIST CUDA_DIST [NAME...]}")
shift 2
chosen=" $* "
out=${OUT:-/tmp/sluice-h200}
work=$(mktemp -d /tmp/sluice-h200-work.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
export LD_LIBRARY_PATH=$dist/lib:${LD_LIBRARY_PATH:-}

failures=0
warm_up=1  # steps before those that are measured

wanted() { [[ $chosen == "  " || $chosen == *" $1 "* ]]; }

# figure NAME what `sluice bench step` takes...
figure() {
  local name=$1
  shift
  wanted "$name" || return 0
  local cache=$work/cache peak=0 used
  mkdir -p "$cache"
  "$dist/sluice" bench step --device cuda --cache "$cache" --warm-up "$warm_up" --steps "${STEPS:-2}" \
    --json "$@" \
    >"$out/$name.json" 2>"$out/$name.err" &
  local run=$!
  while kill -0 "$run" 2>/dev/null; do
    used=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1)
    ((used > peak)) && peak=$used
    sleep 0.5
  done
  if ! wait "$run"; then
    printf '%-12s failed: %s\n' "$name" "$(tail -1 "$out/$name.err")"
    failures=$((failures + 1))
    return 0
  fi
  python3 - "$out/$name.json" "$name" "$peak" <<'PY'
import json, sys
found = json.load(open(sys.argv[1]))
print(f"{sys.argv[2]:12} {found['tokens_per_s']:8.0f} tokens/s {found['step_s']:8.2f} s, planned "
      f"{found['planned']['step_s']:.2f} s, {found['bound']} {found['bound_s']:.2f} s, drives {found['drives_s']:.2f} s, "
      f"{sys.argv[3]} MiB; set-up {found['setup']['memory_s']:.0f} + {found['setup']['load_s']:.0f} s")
for tier, bytes in found['bytes'].items():
    if bytes['planned'] != bytes['peak']:
        print(f"{'':12} {tier}: planned {bytes['planned']}, at most {bytes['peak']}")
PY
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
if wanted tests; then
  for test in cuda_test cuda_train_test; do
    state=pass
    "$tests/$test" >"$out/$test.txt" 2>&1 || { state=FAIL; failures=$((failures + 1)); }
    echo "$test: $state"
    sed -n '/FAILED/p; /PASSED/p; /SKIPPED/p; /Skipped/p; /^loss/p' "$out/$test.txt"
  done
fi
if wanted torch; then
  SLUICE_LIBRARY_PATH=$LD_LIBRARY_PATH env -u LD_LIBRARY_PATH "$here/beside_torch.py" "$tests/cuda_test" |
    tee "$out/beside-torch.txt" || failures=$((failures + 1))
fi
if wanted kernels; then
  "$tests/cuda_test" --gtest_also_run_disabled_tests --gtest_filter='Cuda*Speed.*' | tee "$out/kernels.txt"
fi

# Most figures are of one model.
needs_8b=
for name in t1 t1-all t2 t1-12 t1-24 t1-48 t1-f32 t1-8bit t1-4096 lora qlora; do
  if wanted "$name"; then needs_8b=1; fi
done
: >"$out/init.txt"
if [[ $needs_8b ]]; then "$dist/sluice" model init llama-3.1-8b "$work/8b" >"$out/init.txt"; fi
long=(--model "$work/8b" --seq 12288 --micro-batch 1 --accumulate 8)
bf16=(optimizer=adamw_bf16)
figure t1 "${long[@]}" "${bf16[@]}" gpu_memory=16GiB host_memory=118GiB --trace "$out/t1-trace.json"
figure t1-all "${long[@]}" "${bf16[@]}" gpu_memory=16GiB host_memory=118GiB recompute=all
figure t2 "${long[@]}" "${bf16[@]}" gpu_memory=136GiB host_memory=8GiB wave_size=8 recompute=all
for gib in 12 24 48; do figure "t1-$gib" "${long[@]}" "${bf16[@]}" gpu_memory=${gib}GiB host_memory=118GiB; done
figure t1-f32 "${long[@]}" optimizer=adamw_torch gpu_memory=16GiB host_memory=118GiB
figure t1-8bit "${long[@]}" optimizer=adamw_8bit gpu_memory=16GiB host_memory=118GiB
figure t1-4096 --model "$work/8b" --seq 4096 --micro-batch 4 --accumulate 8 "${bf16[@]}" gpu_memory=16GiB host_memory=118GiB
figure lora "${long[@]}" gpu_memory=16GiB host_memory=40GiB adapter=lora lora_r=16 lora_alpha=32 lora_target_linear=true
figure qlora "${long[@]}" gpu_memory=16GiB host_memory=40GiB adapter=qlora lora_r=16 lora_alpha=32 lora_target_linear=true
rm -rf "$work/8b"
figure qwen --shape qwen2.5-7b --seq 12288 --accumulate 8 "${bf16[@]}" gpu_memory=16GiB host_memory=118GiB
# Moments on the drive. Updates wait for the norm of all gradients, so that the drive works under the next forward alone:
# a step comes close to what bounds it where the drive has far more to do than the card, or far less.
# Two versions of the state take turns on the drive, and places that nothing was written to are slow.
warm_up=3
figure t3 --shape llama-3.2-3b --seq 12288 --accumulate 1 "${bf16[@]}" gpu_memory=16GiB host_memory=13GiB \
  --trace "$out/t3-trace.json"
figure t3-8 --shape llama-3.2-3b --seq 12288 --accumulate 8 "${bf16[@]}" gpu_memory=16GiB host_memory=22GiB
# Nearly all that lasts is on the drive, of a model whose state one of 64 GiB just holds twice. Its checkpoint lies in
# memory, beside the budgets, as that of the 70B does: the disk has no room for it and for the store.
all=/dev/shm/sluice-h200-7b
big=/dev/shm/sluice-h200-70b
trap 'rm -rf "$work" "$all" "$big"' EXIT
if wanted t3-all; then "$dist/sluice" model init llama-2-7b "$all" >>"$out/init.txt"; fi
figure t3-all --model "$all" --seq 12288 --accumulate 1 optimizer=adamw_8bit gpu_memory=12GiB host_memory=2GiB
rm -rf "$all"
warm_up=1
# All parameters of a large shape: its checkpoint lies on the disk, its state in both memories.
figure largest --shape mistral-small-24b --seq 8192 --accumulate 4 optimizer=adamw_8bit gpu_memory=136GiB host_memory=116GiB

if wanted qlora-70b || wanted qlora-70b-nvme; then
  "$dist/sluice" model init llama-3.1-70b "$big" --quantize nf4 >>"$out/init.txt"
  adapter=(adapter=qlora lora_r=16 lora_alpha=32 lora_target_linear=true)
  figure qlora-70b --model "$big" --seq 4096 --accumulate 4 "${adapter[@]}" gpu_memory=24GiB host_memory=70GiB
  figure qlora-70b-nvme --model "$big" --seq 4096 --accumulate 4 "${adapter[@]}" gpu_memory=24GiB host_memory=16GiB
fi

((failures == 0)) || { echo "$failures failed, see $out" >&2; exit 1; }
