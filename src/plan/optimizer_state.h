// SPDX-License-Identifier: Apache-2.0
// What an optimizer keeps of a parameter from step to step, beside the trailing bits of bf16 weights. It is part of the
// numbers, as the weights' dtype is: a run has one from its beginning to its end.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

enum class OptimizerState : std::uint8_t {
  kAdamWF32,
  kAdamWBF16,  // rounded stochastically
  kAdamW8Bit,  // codes with a scale for each block
  kSgd,        // nothing
  kSgdMomentum,
};
inline constexpr std::array kOptimizerStates{OptimizerState::kAdamWF32, OptimizerState::kAdamWBF16,
                                             OptimizerState::kAdamW8Bit, OptimizerState::kSgd,
                                             OptimizerState::kSgdMomentum};

constexpr bool is_sgd(OptimizerState state) {
  return state == OptimizerState::kSgd || state == OptimizerState::kSgdMomentum;
}

std::string_view name(OptimizerState state);      // "adamw_8bit"
std::string_view describe(OptimizerState state);  // "AdamW with 8-bit moments"
std::string optimizer_state_names();              // all of them, with commas between
std::optional<OptimizerState> find_optimizer_state(std::string_view name);

}  // namespace sluice
