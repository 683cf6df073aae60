// SPDX-License-Identifier: Apache-2.0
// All that one model needs to generate, within one budget: weights that stay if they fit and are streamed if not,
// caches, activations. On the CPU the device's arena is exactly the budget, or less where the model needs less.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/progress.h"
#include "device/cpu/cpu_device.h"
#include "infer/generator.h"
#include "model/slice_source.h"

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

  // Throws OutOfBudget that says how much would do. `slices` and `arch` outlive this.
  ModelMemory(const CheckpointSlices& slices, const Architecture& arch, const MemoryPlan& plan,
              const ProgressSink& progress);

  Generator& generator() { return *generator_; }
  bool streams() const { return streams_; }

 private:
  bool streams_ = false;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<SliceSource> source_;
  std::unique_ptr<Generator> generator_;
};

}  // namespace sluice
