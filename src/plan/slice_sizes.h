// SPDX-License-Identifier: Apache-2.0
// The sizes of a model's slices, worked out once for the many schedules that a search looks at.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture.h"
#include "plan/step_memory.h"

namespace sluice {

struct SliceSizes {
  std::uint64_t elements = 0;  // that are trained
  std::uint64_t weight_bytes = 0;
  std::uint64_t adapter_bytes = 0;    // trained in place of the weights; 0: there is none
  std::uint64_t gradient_bytes = 0;   // of a sum
  std::uint64_t rounded_bytes = 0;    // of what it is rounded to, where that may be stored; else 0
  std::uint64_t optimizer_bytes = 0;  // padding included
  bool weights_change = true;         // and are written again with every step
  bool has_small_weights = false;     // a place of their own
  bool has_small_gradients = false;
};

// Of a run of gradients at home.
inline std::uint64_t gradient_run_bytes(const SliceSizes& sizes, const Schedule& schedule, Home home) {
  return schedule.is_one_wave && home != Home::kDevice && sizes.rounded_bytes > 0 ? sizes.rounded_bytes
                                                                                  : sizes.gradient_bytes;
}

std::vector<SliceSizes> slice_sizes(const Architecture& arch, DType dtype, OptimizerState optimizer,
                                    std::uint64_t chunk_bytes);

}  // namespace sluice
