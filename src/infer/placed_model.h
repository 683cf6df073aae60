// SPDX-License-Identifier: Apache-2.0
// A model's weights within a budget: resident if they fit beside the other memory, otherwise streamed from the
// checkpoint; an adapter is always resident. Owns its stream and the device (the CPU, with an arena of at most the
// budget). Not thread-safe.
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
  const ModelDescription* model = nullptr;  // with an adapter: describe_adapted()
  const AdapterFolder* adapter = nullptr;   // null: none
};

struct PlacementBudget {
  std::uint64_t budget_bytes = 0;
  std::uint64_t other_bytes = 0;  // part of the budget reserved for other memory than weights
  DType dtype = DType::kBF16;
  std::size_t num_threads = 1;
};

class PlacedModel {
 public:
  // Throws OutOfBudget if the budget is less than other_bytes plus the least memory for streamed weights.
  PlacedModel(const ModelParts& parts, const PlacementBudget& budget, const ProgressSink& progress);

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  ForwardParts forward_parts();
  bool streams() const { return streams_; }

  // Device memory of weights and adapter: all resident, or streamed with `num_places` slices in flight.
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
