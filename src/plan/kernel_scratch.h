// SPDX-License-Identifier: Apache-2.0
// Device memory for a card's kernels while they run.
#pragma once

#include <cstdint>

#include "model/architecture.h"

namespace sluice {

struct KernelShape {
  std::int64_t sequence_len = 0;
  std::int64_t batch_tokens = 0;
  bool has_cudnn_gradients = true;  // from Machine::Device
};
// What attention likes for sequences of this length, but no more than a part of the device's budget: a large one where
// there is room, as it computes more heads at a time then.
enum class ScratchWish : std::uint8_t { kLarge, kSmall };
std::uint64_t kernel_scratch_bytes(const Architecture& arch, const KernelShape& shape, std::uint64_t device_bytes,
                                   ScratchWish wish = ScratchWish::kLarge);

}  // namespace sluice
