// SPDX-License-Identifier: Apache-2.0
// Kernel of ops/adamw.h: one pass over all tensors, so that memory sets its speed.
#pragma once

#include "base/worker_team.h"
#include "ops/adamw.h"

namespace sluice::cpu {

// What every element of a step is computed with.
struct AdamWFactors {
  float grad_scale;
  float decay;    // 1 - learning rate * weight decay
  float m_share;  // 1 - beta1
  float beta2;
  float v_share;             // 1 - beta2
  float inverse_correction;  // 1 / sqrt(1 - beta2^step)
  float eps;
  float step_size;  // learning rate / (1 - beta1^step)
};

void adamw(WorkerTeam& team, const AdamW& args);

}  // namespace sluice::cpu
