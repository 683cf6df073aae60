// SPDX-License-Identifier: Apache-2.0
#include "plan/kernel_scratch.h"

#include <algorithm>

#include "base/bf16.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::uint64_t kLeastScratchBytes = 64 * kMiB;

}  // namespace

std::uint64_t kernel_scratch_bytes(const Architecture& arch, const KernelShape& shape, std::uint64_t device_bytes,
                                   ScratchWish wish) {
  // cuDNN's deterministic attention backward takes quadratic scratch per head and copies of its operands; with little
  // scratch it runs a few heads at a time. Our own kernels take one value per row.
  const auto tokens = static_cast<std::uint64_t>(shape.batch_tokens);
  const std::uint64_t length = round_up(static_cast<std::uint64_t>(shape.sequence_len), 128);
  const auto heads = static_cast<std::uint64_t>(arch.num_heads);
  const auto q_width = static_cast<std::uint64_t>(arch.q_width());
  const auto kv_width = static_cast<std::uint64_t>(arch.kv_width());
  const std::uint64_t cudnn =
      heads * length * length * sizeof(BF16) + tokens * (4 * q_width + 4 * kv_width) * sizeof(BF16);
  const std::uint64_t attention = (shape.has_cudnn_gradients ? cudnn : 0) + tokens * heads * 8;
  // Products that are f32 before they are bf16.
  const bool has_detours = arch.adapter.exists() || arch.qkv_bias != Biases::kNone || arch.out_bias != Biases::kNone ||
                           arch.mlp_bias != Biases::kNone;
  const auto widest = static_cast<std::uint64_t>(std::max({arch.hidden, arch.qkv_width(), arch.up_width()}));
  const std::uint64_t least = kLeastScratchBytes + (has_detours ? tokens * widest * sizeof(float) : 0);
  const std::uint64_t most = device_bytes / 8 * (wish == ScratchWish::kLarge ? 3 : 1);
  return round_up(std::max(least, std::min(kLeastScratchBytes + attention, most)), kMiB);
}

}  // namespace sluice
