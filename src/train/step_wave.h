// SPDX-License-Identifier: Apache-2.0
// The wave of a step that is under way: micro-batches that go through the model together, and what the step wants of
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/batch.h"
#include "plan/weight_order.h"

namespace sluice {

struct StepWave {
  struct Member {
    std::unique_ptr<Batch> batch;
    std::int64_t batch_idx = 0;  // of the wave
    std::int64_t step_idx = 0;   // of the step

    std::int64_t num_tokens() const { return batch->num_tokens(); }
  };

  std::vector<Member> members;
  bool is_last = true;  // of the step
  StepAim aim = StepAim::kLearn;
  float loss_scale = 1;
};

}  // namespace sluice
