// SPDX-License-Identifier: Apache-2.0
// How the learning rate moves over a run, number for number as transformers' schedules of the same names
// (get_linear_schedule_with_warmup and its siblings). A value; no state: the rate follows from the step alone, so a
// resumed run needs nothing but its step.
#pragma once

#include <cstdint>

namespace sluice {

enum class LrScheduler { kConstant, kConstantWithWarmup, kLinear, kCosine };

// Warm-up steps of a run: `warmup_steps` where it is above 0, else ceil(total_steps * warmup_ratio).
std::uint64_t warmup_steps_of(std::uint64_t warmup_steps, double warmup_ratio, std::uint64_t total_steps);

struct LrSchedule {
  LrScheduler scheduler = LrScheduler::kConstant;
  double peak_lr = 0;
  std::uint64_t warmup_steps = 0;  // kConstant has none, whatever stands here
  std::uint64_t total_steps = 0;

  // The rate of the update that ends optimizer step `step_idx`, counted from 0: with warm-up the first update's is 0.
  double rate(std::uint64_t step_idx) const;
};

}  // namespace sluice
