// SPDX-License-Identifier: Apache-2.0
#include "plan/optimizer_state.h"

namespace sluice {

std::string_view name(OptimizerState state) {
  switch (state) {
    case OptimizerState::kAdamWF32:
      return "adamw_torch";
    case OptimizerState::kAdamWBF16:
      return "adamw_bf16";
    case OptimizerState::kAdamW8Bit:
      return "adamw_8bit";
    case OptimizerState::kSgd:
      return "sgd";
    case OptimizerState::kSgdMomentum:
      return "sgd_momentum";
  }
  return "";
}

std::string_view describe(OptimizerState state) {
  switch (state) {
    case OptimizerState::kAdamWF32:
      return "AdamW with f32 moments";
    case OptimizerState::kAdamWBF16:
      return "AdamW with bf16 moments";
    case OptimizerState::kAdamW8Bit:
      return "AdamW with 8-bit moments";
    case OptimizerState::kSgd:
      return "SGD";
    case OptimizerState::kSgdMomentum:
      return "SGD with momentum";
  }
  return "";
}

std::string optimizer_state_names() {
  std::string names;
  for (const OptimizerState state : kOptimizerStates) {
    if (!names.empty()) names += ", ";
    names += name(state);
  }
  return names;
}

std::optional<OptimizerState> find_optimizer_state(std::string_view wanted) {
  for (const OptimizerState state : kOptimizerStates) {
    if (name(state) == wanted) return state;
  }
  return std::nullopt;
}

}  // namespace sluice
