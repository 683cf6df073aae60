// SPDX-License-Identifier: Apache-2.0
#include "train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice {
namespace {

double steps_after_warmup(const LrSchedule& schedule) {
  return schedule.total_steps > schedule.warmup_steps
             ? static_cast<double>(schedule.total_steps - schedule.warmup_steps)
             : 1.0;
}

// From 0 at the end of the warm-up to 1 at the end of the run. A cosine goes on beyond: up again, as transformers'
// does.
double progress(const LrSchedule& schedule, std::uint64_t step_idx) {
  return static_cast<double>(step_idx - schedule.warmup_steps) / steps_after_warmup(schedule);
}

// Divided as transformers divides; 1 - progress would round differently.
double remaining(const LrSchedule& schedule, std::uint64_t step_idx) {
  if (step_idx >= schedule.total_steps) return 0;
  return static_cast<double>(schedule.total_steps - step_idx) / steps_after_warmup(schedule);
}

}  // namespace

std::uint64_t warmup_steps_of(std::uint64_t warmup_steps, double warmup_ratio, std::uint64_t total_steps) {
  if (warmup_steps > 0) return warmup_steps;
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(total_steps) * warmup_ratio));
}

double LrSchedule::rate(std::uint64_t step_idx) const {
  if (scheduler == LrScheduler::kConstant) return peak_lr;
  if (step_idx < warmup_steps) return peak_lr * (static_cast<double>(step_idx) / static_cast<double>(warmup_steps));
  switch (scheduler) {
    case LrScheduler::kLinear:
      return peak_lr * remaining(*this, step_idx);
    case LrScheduler::kCosine:
      return peak_lr * std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * progress(*this, step_idx))));
    case LrScheduler::kConstant:
    case LrScheduler::kConstantWithWarmup:
      break;
  }
  return peak_lr;
}

}  // namespace sluice
