// SPDX-License-Identifier: Apache-2.0
// For tests of optimizers: masters cut in two and joined, and the step of AdamW by its definition.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/adamw.h"
#include "ops/test_tensors.h"

namespace sluice::testing {

// A master cut into a bf16 and what trails it.
struct Halves {
  TestTensor weight, trailing;
};

inline Halves halves_of(const std::vector<float>& masters) {
  const auto size = static_cast<std::int64_t>(masters.size());
  Halves halves = {{DType::kBF16, {size}}, {DType::kBF16, {size}}};
  for (std::size_t i = 0; i < masters.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(masters[i]);
    halves.weight.view().as<std::uint16_t>()[i] = static_cast<std::uint16_t>((bits + 0x8000U) >> 16);
    halves.trailing.view().as<std::uint16_t>()[i] = static_cast<std::uint16_t>(bits & 0xFFFFU);
  }
  return halves;
}

inline std::vector<float> masters_of(const Halves& halves) {
  std::vector<float> masters;
  const auto weight = halves.weight.view().as<std::uint16_t>();
  const auto trailing = halves.trailing.view().as<std::int16_t>();
  for (std::size_t i = 0; i < weight.size(); ++i) {
    const std::int64_t bits = (static_cast<std::int64_t>(weight[i]) << 16) + trailing[i];
    masters.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return masters;
}

inline std::vector<float> floats_of(const TestTensor& tensor) {
  const auto values = tensor.view().as<float>();
  return {values.begin(), values.end()};
}

struct AdamWState {
  Doubles weight, m, v;
};

// One step of AdamW by the definition, in double.
inline void exact_step(AdamWState& state, const Doubles& grad, const AdamWSettings& with) {
  const auto step = static_cast<double>(with.step);
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const double g = grad[i] * static_cast<double>(with.grad_scale);
    state.m[i] = with.beta1 * state.m[i] + (1 - with.beta1) * g;
    state.v[i] = with.beta2 * state.v[i] + (1 - with.beta2) * g * g;
    const double m_hat = state.m[i] / (1 - std::pow(with.beta1, step));
    const double v_hat = state.v[i] / (1 - std::pow(with.beta2, step));
    state.weight[i] -= with.learning_rate * with.weight_decay * state.weight[i];
    state.weight[i] -= with.learning_rate * m_hat / (std::sqrt(v_hat) + with.eps);
  }
}

}  // namespace sluice::testing
