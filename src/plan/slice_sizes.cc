// SPDX-License-Identifier: Apache-2.0
#include "plan/slice_sizes.h"

#include "device/device.h"
#include "model/adapter_layout.h"
#include "model/slice_layout.h"

namespace sluice {

std::vector<SliceSizes> slice_sizes(const Architecture& arch, DType dtype, OptimizerState optimizer,
                                    std::uint64_t chunk_bytes) {
  const Schedule schedule{.dtype = dtype, .optimizer = optimizer};
  const auto is_small = [](std::uint64_t bytes) { return round_up(bytes, Device::kAlignment) <= kSmallSliceBytes; };
  std::vector<SliceSizes> sizes;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    SliceSizes one{.elements = trained_layout(arch, slice_idx).num_elements(),
                   .weight_bytes = weight_bytes(arch, schedule, slice_idx),
                   .adapter_bytes = adapter_bytes(arch, slice_idx),
                   .gradient_bytes = gradient_bytes(arch, slice_idx),
                   .optimizer_bytes = optimizer_bytes(arch, schedule, chunk_bytes, slice_idx),
                   .weights_change = !arch.adapter.exists()};
    if (rounds_gradients(arch, schedule) && may_store_rounded(arch, slice_idx)) {
      one.rounded_bytes = trained_layout(arch, slice_idx).size_bytes(DType::kBF16);
    }
    one.has_small_weights = is_small(one.weight_bytes);
    one.has_small_gradients = is_small(one.gradient_bytes);
    sizes.push_back(one);
  }
  return sizes;
}

}  // namespace sluice
