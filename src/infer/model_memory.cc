// SPDX-License-Identifier: Apache-2.0
#include "infer/model_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

PlacementBudget placement_budget(const Architecture& arch, const MemoryPlan& plan) {
  const std::uint64_t other_bytes = Generator::size_bytes(arch, plan.dtype, plan.capacity_tokens);
  const std::uint64_t least_bytes = PlacedModel::streamed_bytes(arch, plan.dtype, 1) + other_bytes;
  if (plan.budget_bytes < least_bytes) {
    throw OutOfBudget(
        fmt::format("generating {} tokens with this model takes at least {} MiB ({} of it for a slice on its way), but "
                    "the budget is {}: raise --host or shorten the text",
                    plan.capacity_tokens, div_ceil(least_bytes, kMiB), format_bytes(least_bytes - other_bytes),
                    format_bytes(plan.budget_bytes)));
  }
  return {.budget_bytes = plan.budget_bytes,
          .other_bytes = other_bytes,
          .dtype = plan.dtype,
          .num_threads = plan.num_threads};
}

}  // namespace

std::optional<std::int64_t> ModelMemory::room_tokens(const Architecture& arch, const MemoryPlan& plan,
                                                     std::int64_t least_tokens) {
  const auto fits = [&](std::uint64_t weight_bytes, std::int64_t tokens) {
    return weight_bytes + Generator::size_bytes(arch, plan.dtype, tokens) <= plan.budget_bytes;
  };
  for (const std::uint64_t weight_bytes :
       {PlacedModel::resident_bytes(arch, plan.dtype), PlacedModel::streamed_bytes(arch, plan.dtype, 2),
        PlacedModel::streamed_bytes(arch, plan.dtype, 1)}) {
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

ModelMemory::ModelMemory(const ModelParts& parts, const MemoryPlan& plan, const ProgressSink& progress)
    : placed_(parts, placement_budget(parts.model->arch, plan), progress),
      generator_(placed_.device(), placed_.forward_parts(), plan.capacity_tokens) {}

}  // namespace sluice
