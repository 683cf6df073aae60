// SPDX-License-Identifier: Apache-2.0
// How kernels share out what they go over: items of a fixed size, so that results do not depend on how many threads
// there are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "base/worker_team.h"

namespace sluice::cpu {

// work(first, count) for items that cover [0, total); the last may be smaller.
template <typename Work>
void over_items(WorkerTeam& team, std::int64_t total, std::int64_t item_size, const Work& work) {
  const auto num_items =
      static_cast<std::int64_t>(div_ceil(static_cast<std::uint64_t>(total), static_cast<std::uint64_t>(item_size)));
  team.for_each(num_items, [&](std::int64_t item_idx, std::size_t) {
    const std::int64_t first = item_idx * item_size;
    work(first, std::min(item_size, total - first));
  });
}

}  // namespace sluice::cpu
