// SPDX-License-Identifier: Apache-2.0
// In which order a step uses its slices' weights: the trainer fetches ahead by it, and the forecast does as the
// trainer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/architecture.h"
#include "plan/schedule.h"

namespace sluice {

enum class StepAim : std::uint8_t { kLearn, kLossOnly };

// Wave by wave: the embedding, the blocks, the head, and the blocks again, group by group from the last.
std::vector<std::size_t> weight_order(const Architecture& arch, const Schedule& schedule,
                                      std::int64_t num_micro_batches, StepAim aim);

}  // namespace sluice
