// SPDX-License-Identifier: Apache-2.0
#include "plan/weight_order.h"

#include <algorithm>

#include "model/slice_layout.h"

namespace sluice {
namespace {

std::vector<std::size_t> wave_order(const Architecture& arch, const Schedule& schedule, StepAim aim) {
  std::vector<std::size_t> wave;
  for (std::int64_t idx = 0; idx < arch.num_vocab_ranges(); ++idx) wave.push_back(embedding_slice(idx));
  if (arch.learned_positions > 0) wave.push_back(positions_slice(arch));
  for (std::int64_t idx = 0; idx < arch.num_layers(); ++idx) wave.push_back(block_slice(arch, idx));
  wave.push_back(final_norm_slice(arch));
  // The softmax needs all ranges before any gradient.
  const int num_sweeps = arch.num_vocab_ranges() > 1 && aim == StepAim::kLearn ? 2 : 1;
  for (int sweep = 0; sweep < num_sweeps; ++sweep) {
    for (std::int64_t idx = 0; idx < arch.num_vocab_ranges(); ++idx) wave.push_back(head_slice(arch, idx));
  }
  if (aim == StepAim::kLossOnly) return wave;
  for (std::int64_t last = arch.num_layers(); last > 0; last -= schedule.group) {
    for (std::int64_t idx = std::max<std::int64_t>(0, last - schedule.group); idx < last; ++idx) {
      wave.push_back(block_slice(arch, idx));
    }
  }
  return wave;
}

}  // namespace

std::vector<std::size_t> weight_order(const Architecture& arch, const Schedule& schedule,
                                      std::int64_t num_micro_batches, StepAim aim) {
  const std::vector<std::size_t> wave = wave_order(arch, schedule, aim);
  std::vector<std::size_t> order;
  for (std::int64_t first = 0; first < num_micro_batches; first += schedule.wave) {
    order.insert(order.end(), wave.begin(), wave.end());
  }
  return order;
}

}  // namespace sluice
