// SPDX-License-Identifier: Apache-2.0
#include "plan/step_costs.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "model/adapter_layout.h"
#include "model/packed_block.h"
#include "model/slice_layout.h"
#include "plan/optimizer_layout.h"

namespace sluice {
namespace {

// Products of a pair of matrices: two operations an element and token.
constexpr double kProduct = 2;
// Attention multiplies queries with keys and scores with values; its backward does so five times, one of them again.
constexpr double kAttentionProducts = 2;
constexpr double kAttentionBackwardProducts = 5;
// Logits are written, read for the softmax, and read or written once more: f32.
constexpr double kLogitBytes = 3 * sizeof(float);

double elements(const SliceLayout& layout, Param param) {
  const Parameter* const found = layout.find(param);
  return found == nullptr ? 0 : static_cast<double>(found->shape.num_elements());
}

// Elements that one core can update in a second, where it computes longer than memory takes: one thread of a Zen 4, as
// docs/precisions.md has it.
constexpr double kRoundedPerSecondAndCore = 1.37e9;
constexpr double kCodesPerSecondAndCore = 4.7e8;

// Of a block's adapter, as one matrix: what stands packed is multiplied with, zeros included.
double adapter_elements(const Architecture& arch) {
  const AdapterLayout layout(arch);
  double sum = 0;
  for (const AdapterPart& part : layout.parts()) {
    sum += static_cast<double>(part.num_columns() * (part.in + part.out));
  }
  return sum;
}

// What a block's kernels move through memory beside the arithmetic of its products.
struct BlockBytes {
  double forward = 0;
  double recompute = 0;
  double backward = 0;  // the rest of it
};

// Weights are read for each product, gradients of weights are added to where they lie. Of a token: what norms, rotary
// embedding, activation and residual sums read and write, one pass each; the backward does all of it again, then undoes
// it, with one more operand. The activation is done again even of a block that was stored.
BlockBytes block_bytes(const Architecture& arch, double matrices, double tokens, double width) {
  const auto hidden = static_cast<double>(arch.hidden);
  const auto turned = static_cast<double>(arch.q_width() + arch.kv_width());
  const auto middle = static_cast<double>(arch.intermediate);
  const auto up = static_cast<double>(arch.up_width());
  const double norms = 2 + (arch.norm_after_attention ? 1 : 0) + (arch.norm_after_mlp ? 1 : 0);
  const double activation = up + middle;
  const double recompute = norms * 2 * hidden + 2 * 3 * hidden + 2 * turned;
  const double backward = norms * 4 * hidden + 2 * 3 * hidden + 2 * turned + 2 * up + middle;
  const double summed = arch.adapter.exists() ? 0 : matrices * 2 * sizeof(float);
  return {.forward = (matrices + tokens * (recompute + activation)) * width,
          .recompute = (matrices + tokens * recompute) * width,
          .backward = (matrices + tokens * (activation + backward)) * width + summed};
}

// Keys that a query sees, on average.
double mean_keys(std::int64_t sequence_len, std::int64_t window) {
  const auto length = static_cast<double>(sequence_len);
  if (window <= 0 || window >= sequence_len) return (length + 1) / 2;
  const auto keys = static_cast<double>(window);
  return keys - keys * (keys - 1) / (2 * length);
}

}  // namespace

double StepCosts::forward_s() const {
  const auto num_ranges = static_cast<double>(heads.size());
  return std::accumulate(block_forward.begin(), block_forward.end(), num_ranges * embed + embed_positions);
}

double StepCosts::block_backward_s(std::int64_t layer_idx, const Schedule& schedule) const {
  const auto idx = static_cast<std::size_t>(layer_idx);
  const auto num_layers = static_cast<std::int64_t>(block_backward.size());
  if (layer_idx >= num_layers - schedule.stored_layers) return block_backward[idx];
  const bool is_kept = schedule.boundaries != Home::kDevice && layer_idx >= num_layers - schedule.kept_attention;
  return block_backward[idx] + block_recompute[idx] - (is_kept ? block_attention[idx] : 0);
}

double StepCosts::backward_s(const Schedule& schedule) const {
  const auto num_ranges = static_cast<double>(heads.size());
  double sum = num_ranges * embed_backward + positions_backward;
  for (std::int64_t idx = 0; idx < static_cast<std::int64_t>(block_backward.size()); ++idx) {
    sum += block_backward_s(idx, schedule);
  }
  for (const Head& head : heads) sum += heads.size() == 1 ? head.at_once : head.statistics + head.gradients;
  return heads.size() > 1 ? sum + heads.front().end : sum;
}

double update_bytes_per_element(OptimizerState state) {
  constexpr double kMasterAndGradient = 2 * sizeof(float) + sizeof(float);
  switch (state) {
    case OptimizerState::kAdamWF32:
      return kMasterAndGradient + 4 * sizeof(float);
    case OptimizerState::kAdamWBF16:
      return kMasterAndGradient + 4 * sizeof(std::uint16_t);
    case OptimizerState::kAdamW8Bit:
      return kMasterAndGradient + 4 * (1 + sizeof(float) / static_cast<double>(OptimizerLayout::kBlock));
    case OptimizerState::kSgd:
      return kMasterAndGradient;
    case OptimizerState::kSgdMomentum:
      return kMasterAndGradient + 2 * sizeof(float);
  }
  return 0;
}

double update_s(OptimizerState state, double num_elements, const Machine& machine) {
  if (num_elements == 0) return 0;
  const double memory_s = num_elements * update_bytes_per_element(state) / machine.host.optimizer_bytes_per_s;
  double core_rate = std::numeric_limits<double>::infinity();
  if (state == OptimizerState::kAdamWBF16) core_rate = kRoundedPerSecondAndCore;
  if (state == OptimizerState::kAdamW8Bit) core_rate = kCodesPerSecondAndCore;
  const auto num_cores = static_cast<double>(std::max<std::int64_t>(machine.host.num_cores, 1));
  return std::max(memory_s, num_elements / (core_rate * num_cores));
}

StepCosts step_costs(const Architecture& arch, const StepShape& shape, const Machine& machine) {
  const double rate = machine.device.flops_per_s.of(shape.dtype);
  const double attention_rate = machine.device.attention_flops_per_s.of(shape.dtype);
  const double memory_rate = machine.device.memory_bytes_per_s;
  const auto tokens = static_cast<double>(shape.batch_tokens);
  const auto width = static_cast<double>(size_bytes(shape.dtype));
  const std::int64_t sequence_len = std::min(shape.sequence_len, shape.batch_tokens);

  const bool has_adapter = arch.adapter.exists();
  const double adapter = has_adapter ? adapter_elements(arch) : 0;
  StepCosts costs;
  for (std::int64_t layer_idx = 0; layer_idx < arch.num_layers(); ++layer_idx) {
    const SliceLayout layout = slice_layout(arch, block_slice(arch, layer_idx));
    double matrices = 0;
    for (const Param param : {Param::kQkv, Param::kOut, Param::kUp, Param::kDown}) matrices += elements(layout, param);
    // The backward needs the MLP's output again only to undo a norm after it.
    const double again = matrices - (arch.norm_after_mlp ? 0 : elements(layout, Param::kDown));
    const double product_s = kProduct * tokens / rate;
    const double keys = mean_keys(sequence_len, arch.layers[static_cast<std::size_t>(layer_idx)].window_tokens);
    const double attention_s = kProduct * tokens * keys * static_cast<double>(arch.q_width()) / attention_rate;
    // Beside an adapter the weights' gradients are left out; the adapter's backward computes its inner product again.
    const double with_weights = has_adapter ? 1 : 2;
    const BlockBytes bytes = block_bytes(arch, matrices, tokens, width);
    costs.block_forward.push_back(product_s * (matrices + adapter) + attention_s * kAttentionProducts +
                                  bytes.forward / memory_rate);
    costs.block_recompute.push_back(product_s * (again + adapter) + attention_s * kAttentionProducts +
                                    bytes.recompute / memory_rate);
    costs.block_attention.push_back(attention_s * kAttentionProducts);
    costs.block_backward.push_back(product_s * (with_weights * matrices + 3 * adapter) +
                                   attention_s * kAttentionBackwardProducts + bytes.backward / memory_rate);
  }

  if (arch.num_layers() > 0 && is_packed(arch, block_slice(arch, 0))) {
    const std::size_t slice_idx = block_slice(arch, 0);
    const std::uint64_t moved =
        kept_bytes(arch, slice_idx, shape.dtype) + slice_layout(arch, slice_idx).size_bytes(shape.dtype);
    costs.block_unpack = static_cast<double>(moved) / memory_rate;
  }

  const double row_bytes = tokens * static_cast<double>(arch.hidden) * width;
  const auto num_ranges = static_cast<double>(arch.num_vocab_ranges());
  for (std::int64_t range_idx = 0; range_idx < arch.num_vocab_ranges(); ++range_idx) {
    const auto rows = static_cast<double>(vocab_range(arch, range_idx).count);
    const double product_s = kProduct * tokens * rows * static_cast<double>(arch.hidden) / rate;
    const double logits_s = tokens * rows * kLogitBytes / memory_rate;
    const double products_s = (has_adapter ? 2 : 3) * product_s;
    const double rows_s = rows * static_cast<double>(arch.hidden) * width / memory_rate;
    const double summed_s = has_adapter ? 0 : rows * static_cast<double>(arch.hidden) * 2 * sizeof(float) / memory_rate;
    costs.heads.push_back({.at_once = products_s + logits_s + 2 * rows_s + summed_s,
                           .statistics = product_s + logits_s + rows_s,
                           .gradients = products_s + logits_s + 2 * rows_s + summed_s,
                           .end = 4 * row_bytes / memory_rate});
  }
  costs.embed = 2 * row_bytes / num_ranges / memory_rate;
  costs.embed_backward = (row_bytes + 2 * row_bytes / width * sizeof(float)) / num_ranges / memory_rate;
  if (arch.learned_positions > 0) costs.embed_positions = 3 * row_bytes / memory_rate;
  costs.positions_backward = costs.embed_positions;
  if (has_adapter) costs.embed_backward = costs.positions_backward = 0;
  return costs;
}

}  // namespace sluice
