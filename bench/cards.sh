#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a machine with one card can tell of the others (docs/cards.md): tests in which the card plays another, the table of
# kernels beside cuobjdump's where that is, what `sluice env` says, and what small tiles cost.
#   scripts/build portable --target dist cuda_dist
#   bench/cards.sh DIST CUDA_DIST      the folders made above; logs go to $OUT, or to /tmp/sluice-cards
# cuDNN and cuBLASLt are found through LD_LIBRARY_PATH.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
dist=$(realpath "${1:?usage: bench/cards.sh DIST CUDA_DIST}")
tests=$(realpath "${2:?usage: bench/cards.sh DIST CUDA_DIST}")
out=${OUT:-/tmp/sluice-cards}
mkdir -p "$out"
failures=0

# run NAME command...
run() {
  local name=$1 state=pass
  shift
  "$@" >"$out/$name.txt" 2>&1 || { state=FAIL; failures=$((failures + 1)); }
  echo "== $name: $state"
  sed -n '/FAILED/p; /Failure/,+6p; /PASSED/p; /^FAIL/p; /^ok/p; /^compared/p' "$out/$name.txt"
}

nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader
run kernels python3 "$here/../tests/kernel_limits_test.py" "$tests/libsluice_cuda.so" "$tests/kernel_launches.json"
run played "$tests/cuda_test" --gtest_filter='*SmallTiles*:*Refuses*:*SaysHow*:*Slots*'
sed -n '/attention .*heads of/p; /own kernels/p; /matrix products/p' "$out/played.txt"
run cuda_test "$tests/cuda_test"
run cuda_train_test "$tests/cuda_train_test"
echo "== env"
"$dist/sluice" env --no-measure | sed -n '/GPU/,/driver/p'
"$dist/sluice" env | sed -n '/GPU/,/driver/p'
echo "== speed"
"$tests/cuda_test" --gtest_also_run_disabled_tests --gtest_filter='CudaAttentionSpeed.DISABLED_OtherShapes' |
  sed -n '/TFLOP/p' | tee "$out/speed.txt"
((failures == 0)) || { echo "$failures failed, see $out" >&2; exit 1; }
