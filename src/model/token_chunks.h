// SPDX-License-Identifier: Apache-2.0
// How many tokens the wide parts of a model take at a time. Gradients are summed chunk by chunk, so these are part of
// the numbers: they follow from the model and from the kind of device, never from budgets.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/device.h"
#include "model/architecture.h"

namespace sluice {

// Of the MLP: on the CPU its middle stays near the caches; a card wants products large enough to fill it, and sums that
// are written seldom.
constexpr std::int64_t mlp_chunk_tokens(DeviceKind device) { return device == DeviceKind::kCpu ? 1024 : 16384; }

inline std::int64_t widest_range(const Architecture& arch) { return std::min(arch.vocab, arch.vocab_range_rows); }

// Of the head: about 16 Mi logits, or 128 Mi.
inline std::int64_t head_chunk_tokens(const Architecture& arch, DeviceKind device) {
  const bool is_cpu = device == DeviceKind::kCpu;
  return std::clamp<std::int64_t>((is_cpu ? 16 << 20 : 128 << 20) / widest_range(arch), 16, is_cpu ? 1024 : 16384);
}

}  // namespace sluice
