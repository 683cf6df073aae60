// SPDX-License-Identifier: Apache-2.0
// For tests and their tools: a step's loss and gradients with everything on the device, where they can be looked at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/checkpoint_slices.h"
#include "train/state_keys.h"
#include "train/step_runner.h"
#include "train/training_state.h"

namespace sluice {

class DeviceStep {
 public:
  DeviceStep(Device& device, const CheckpointSlices& slices, const Architecture& arch, DType dtype,
             std::int64_t batch_tokens)
      : arch_(arch),
        schedule_{.dtype = dtype,
                  .batch_tokens = batch_tokens,
                  .homes = std::vector<SliceHomes>(num_slices(arch), {Home::kDevice, Home::kDevice, Home::kDevice})},
        keeper_({.device = &device, .host = &host_}) {
    const WeightKeeping state{.keeper = &keeper_, .arch = &arch_, .schedule = &schedule_};
    add_weights(state);
    fill_weights(state, slices, nullptr);
    runner_.emplace(device, arch_, keeper_, schedule_, nullptr);
  }

  StepResult run(const PackedDocuments& documents) {
    return runner_->run(std::span(&documents, 1), std::vector<std::shared_future<void>>(num_slices(arch_)));
  }

  std::span<std::byte> weights(std::size_t slice_idx) const { return keeper_.bytes(weights_key(arch_, slice_idx)); }
  std::span<float> adapter(std::size_t slice_idx) const {
    const std::span<std::byte> bytes = keeper_.bytes(adapter_key(arch_, slice_idx));
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
  }
  // f32, of the last run.
  std::span<float> gradients(std::size_t slice_idx) const {
    const std::span<std::byte> bytes = keeper_.bytes(gradients_key(arch_, slice_idx));
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

 private:
  const Architecture& arch_;
  Schedule schedule_;
  Budget host_{"host memory", 0};
  RunKeeper keeper_;
  std::optional<StepRunner> runner_;
};

}  // namespace sluice
