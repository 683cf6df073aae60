// SPDX-License-Identifier: Apache-2.0
// Device memory for generation with one model, within one budget: weights and adapter (PlacedModel), KV caches,
// activations.
#pragma once

#include <cstdint>
#include <optional>

#include "base/progress.h"
#include "infer/generator.h"
#include "infer/placed_model.h"

namespace sluice {

struct MemoryPlan {
  std::uint64_t budget_bytes = 0;
  std::int64_t capacity_tokens = 0;  // of the document: prompt and answer
  DType dtype = DType::kBF16;
  std::size_t num_threads = 1;
};

class ModelMemory {
 public:
  // How many tokens a document may have, from `least_tokens` up to what the plan asks for, so that weights are kept, or
  // read ahead, as they would be with the least. Nothing where the least has no room.
  static std::optional<std::int64_t> room_tokens(const Architecture& arch, const MemoryPlan& plan,
                                                 std::int64_t least_tokens);

  // Throws OutOfBudget with the budget that suffices. The objects that `parts` points to outlive this.
  ModelMemory(const ModelParts& parts, const MemoryPlan& plan, const ProgressSink& progress);

  Generator& generator() { return generator_; }
  bool streams() const { return placed_.streams(); }

 private:
  PlacedModel placed_;
  Generator generator_;
};

}  // namespace sluice
