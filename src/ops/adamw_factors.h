// SPDX-License-Identifier: Apache-2.0
// What every element of a step of AdamW is computed with, on whatever device.
#pragma once

#include <cmath>

#include "ops/adamw.h"

namespace sluice {

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

inline AdamWFactors adamw_factors(const AdamWSettings& settings) {
  const auto step = static_cast<double>(settings.step);
  return {.grad_scale = settings.grad_scale,
          .decay = static_cast<float>(1 - settings.learning_rate * settings.weight_decay),
          .m_share = static_cast<float>(1 - settings.beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .v_share = static_cast<float>(1 - settings.beta2),
          .inverse_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(settings.beta2, step))),
          .eps = static_cast<float>(settings.eps),
          .step_size = static_cast<float>(settings.learning_rate / (1 - std::pow(settings.beta1, step)))};
}

}  // namespace sluice
