#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run says on a machine with a card where the card cannot be had as it was asked for. For a person to read.
#   LOSE_CARD=lose_card.so bench/bad_cards.sh DIST      the library of tools/lose_card; without it no card is lost
set -uo pipefail
dist=$(realpath "${1:?usage: bench/bad_cards.sh DIST}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$dist/lib:${LD_LIBRARY_PATH:-}
mkdir "$work/cache"
step() { "$dist/sluice" bench step --device cuda --cache "$work/cache" --warm-up 1 --steps 1 "$@" 2>&1 | tail -4; }

echo "== env"
"$dist/sluice" env | sed -n '/GPU/,/driver/p'
echo "== a budget too small for one slice"
step --shape llama-3.2-1b --seq 512 gpu_memory=512MiB host_memory=20GiB
echo "== more than the card has"
step --shape llama-tiny --seq 256 gpu_memory=4TiB host_memory=1GiB
echo "== another process holds the card's memory"
env -u LD_LIBRARY_PATH python3 - <<'PY' &
import time, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - (2 << 30), dtype=torch.uint8, device="cuda")
time.sleep(12)
PY
holder=$!
sleep 7
step --shape llama-tiny --seq 256 gpu_memory=16GiB host_memory=1GiB
kill "$holder" 2>/dev/null
wait "$holder" 2>/dev/null
echo "== no cuDNN: our own kernels"
mkdir "$work/none"
cp "$(ldconfig -p | sed -n 's/.*libz.so.1 .*=> //p' | head -1)" "$work/none/libcudnn.so.9"
LD_LIBRARY_PATH=$work/none:$LD_LIBRARY_PATH "$dist/sluice" env | sed -n '/driver/p'
LD_LIBRARY_PATH=$work/none:$LD_LIBRARY_PATH step --shape llama-tiny --seq 256 gpu_memory=1GiB host_memory=1GiB
echo "== no driver to be seen"
CUDA_VISIBLE_DEVICES= "$dist/sluice" env | sed -n '/GPU/,/driver/p'
CUDA_VISIBLE_DEVICES= step --shape llama-tiny --seq 256 host_memory=1GiB
if [[ -n ${LOSE_CARD:-} ]]; then
  echo "== a card that is lost in a run, and the run that goes on"
  cd "$(dirname "$(realpath "$0")")/.." || exit
  "$dist/sluice" model init llama-tiny "$work/base" --tokenizer examples/handbook/tokenizer
  LOSE_CARD_AFTER_S=${LOSE_CARD_AFTER_S:-8} CUDA_INJECTION64_PATH=$LOSE_CARD \
    "$dist/sluice" train examples/handbook/train.yaml "base_model=$work/base" "output_dir=$work/run" \
    device=cuda gpu_memory=512MiB host_memory=64MiB num_epochs=200 2>&1 | tail -6
  "$dist/sluice" resume "$work/run" 2>&1 | tail -6
fi
