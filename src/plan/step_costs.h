// SPDX-License-Identifier: Apache-2.0
// How long the parts of a training step take on a machine, each alone: floating-point operations over rates, and bytes
// over the speed of memory or of links. What a part computes is counted as the model's code does it: the backward
// recomputes a block that was not stored, the head of several ranges computes its logits twice.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture.h"
#include "plan/machine.h"
#include "plan/schedule.h"

namespace sluice {

struct StepShape {
  DType dtype = DType::kBF16;
  OptimizerState optimizer = OptimizerState::kAdamWF32;
  std::int64_t batch_tokens = 0;  // of a micro-batch
  std::int64_t sequence_len = 0;  // of the documents in it: what attention spans
  std::int64_t num_micro_batches = 1;
};

// Seconds, of one micro-batch where not said otherwise.
struct StepCosts {
  struct Head {
    double at_once = 0;     // loss and gradients, where one range is the whole vocabulary
    double statistics = 0;  // of a range, where there are several
    double gradients = 0;
    double end = 0;
  };
  std::vector<double> block_forward;    // one a layer
  std::vector<double> block_recompute;  // what the backward does first, of a layer that is not stored
  std::vector<double> block_attention;  // of what it recomputes: attention alone
  std::vector<double> block_backward;   // and the rest of it
  double block_unpack = 0;              // of a wave, where blocks are kept packed
  std::vector<Head> heads;              // one a range of the vocabulary
  double embed = 0;                     // a range
  double embed_backward = 0;
  double embed_positions = 0;
  double positions_backward = 0;

  // Of a layer's backward, with what the schedule stores and keeps.
  double block_backward_s(std::int64_t layer_idx, const Schedule& schedule) const;
  // Of a micro-batch: the forward up to the head, and all that follows.
  double forward_s() const;
  double backward_s(const Schedule& schedule) const;
};

StepCosts step_costs(const Architecture& arch, const StepShape& shape, const Machine& machine);

// What an optimizer reads and writes of an element: weight with its trailing bits or f32, its state, and the gradient
// read. Machines are measured by AdamW with f32 moments.
double update_bytes_per_element(OptimizerState state);
// Of so many elements, by the machine's CPU.
double update_s(OptimizerState state, double num_elements, const Machine& machine);

}  // namespace sluice
