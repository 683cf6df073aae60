// SPDX-License-Identifier: Apache-2.0
// A model's weights within a budget: in memory for good if they fit beside what else is needed, else streamed from the
// checkpoint; its adapter, where it has one, always in memory. Owns the device (the CPU, whose arena is the budget, or
// less where the model needs less) and its stream. For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/progress.h"
#include "device/cpu/cpu_device.h"
#include "model/forward_pass.h"
#include "model/resident_adapter.h"
#include "model/slice_source.h"

namespace sluice {

// An opened model; borrowed.
struct ModelParts {
  const CheckpointSlices* slices = nullptr;
  const ModelDescription* model = nullptr;  // describe_adapted(), where there is one
  const AdapterFolder* adapter = nullptr;   // null: none
};

struct PlacementBudget {
  std::uint64_t budget_bytes = 0;
  std::uint64_t other_bytes = 0;  // of the budget, for what is not weights
  DType dtype = DType::kBF16;
  std::size_t num_threads = 1;
};

class PlacedModel {
 public:
  // Throws OutOfBudget where the budget is less than least_bytes() and the other bytes.
  PlacedModel(const ModelParts& parts, const PlacementBudget& budget, const ProgressSink& progress);

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  ForwardParts forward_parts();
  bool streams() const { return streams_; }

  // Weights and adapter: all in memory; or streamed, with memory for so many slices on their way.
  static std::uint64_t resident_bytes(const Architecture& arch, DType dtype);
  static std::uint64_t streamed_bytes(const Architecture& arch, DType dtype, std::uint64_t num_places);

 private:
  const Architecture& arch_;
  bool streams_ = false;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Stream> stream_;
  std::optional<ResidentAdapter> adapter_;
  std::unique_ptr<SliceSource> source_;
};

}  // namespace sluice
