// SPDX-License-Identifier: Apache-2.0
#include "infer/model_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "model/slice_layout.h"
#include "model/streamed_slices.h"

namespace sluice {

std::optional<std::int64_t> ModelMemory::room_tokens(const Architecture& arch, const MemoryPlan& plan,
                                                     std::int64_t least_tokens) {
  const auto fits = [&](std::uint64_t weight_bytes, std::int64_t tokens) {
    return weight_bytes + Generator::size_bytes(arch, plan.dtype, tokens) <= plan.budget_bytes;
  };
  for (const std::uint64_t weight_bytes :
       {ResidentSlices::size_bytes(arch, plan.dtype), StreamedSlices::least_bytes(arch, plan.dtype, 2),
        StreamedSlices::least_bytes(arch, plan.dtype)}) {
    if (!fits(weight_bytes, least_tokens)) continue;
    std::int64_t room = least_tokens;
    std::int64_t too_many = plan.capacity_tokens + 1;
    while (too_many - room > 1) {
      const std::int64_t middle = room + (too_many - room) / 2;
      (fits(weight_bytes, middle) ? room : too_many) = middle;
    }
    return room;
  }
  return std::nullopt;
}

ModelMemory::ModelMemory(const CheckpointSlices& slices, const Architecture& arch, const MemoryPlan& plan,
                         const ProgressSink& progress) {
  const std::uint64_t weight_bytes = ResidentSlices::size_bytes(arch, plan.dtype);
  const std::uint64_t other_bytes = Generator::size_bytes(arch, plan.dtype, plan.capacity_tokens);
  const std::uint64_t least_bytes = StreamedSlices::least_bytes(arch, plan.dtype) + other_bytes;
  if (plan.budget_bytes < least_bytes) {
    throw OutOfBudget(
        fmt::format("generating {} tokens with this model takes at least {} MiB ({} of it for a slice on its way), but "
                    "the budget is {}: "
                    "raise --host or shorten the text",
                    plan.capacity_tokens, div_ceil(least_bytes, kMiB), format_bytes(least_bytes - other_bytes),
                    format_bytes(plan.budget_bytes)));
  }
  streams_ = plan.budget_bytes < weight_bytes + other_bytes;
  device_ = std::make_unique<CpuDevice>(streams_ ? plan.budget_bytes : weight_bytes + other_bytes, plan.num_threads);
  stream_ = device_->make_stream("compute");
  if (streams_) {
    source_ = std::make_unique<StreamedSlices>(*device_, slices, arch, plan.dtype, other_bytes);
  } else {
    std::uint64_t done_bytes = 0;
    source_ = std::make_unique<ResidentSlices>(*device_, slices, arch, plan.dtype, [&](std::size_t slice_idx) {
      if (progress.interrupted()) throw Cancelled("interrupted while the weights were read");
      done_bytes += slice_layout(arch, slice_idx).size_bytes(plan.dtype);
      progress.report({.what = "weights", .done = done_bytes, .total = weight_bytes});
    });
  }
  generator_ = std::make_unique<Generator>(*device_, *stream_, arch, *source_, plan.capacity_tokens);
}

}  // namespace sluice
