// SPDX-License-Identifier: Apache-2.0
#include "train/window_update.h"

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "ops/sgd.h"

namespace sluice {
namespace {

static_assert(OptimizerLayout::kBlock == kMomentBlock && kParameterAlignment % kMomentBlock == 0,
              "a block of moments is of one parameter, and of one window");

// Decay is for matrices: norms and biases are left alone, as transformers' Trainer does.
bool decays(const Parameter& parameter) { return parameter.shape.rank() > 1; }

// Another one for each slice of a run.
std::uint64_t seed_of(const UpdateRule& rule, std::size_t slice_idx) {
  return Random(Random(rule.seed).next() ^ static_cast<std::uint64_t>(slice_idx)).next();
}

// What of the parameter lies in the window: SGD now, AdamW as one of the parts.
void update(Stream& stream, const UpdateRule& rule, const UpdateWindow& window, const Parameter& parameter,
            std::vector<AdamW>& parts) {
  const std::uint64_t begin = std::max(parameter.offset, window.first);
  const std::uint64_t end = std::min(parameter.offset + static_cast<std::uint64_t>(parameter.shape.num_elements()),
                                     window.first + window.count);
  if (begin >= end) return;
  const std::uint64_t at = begin - window.first;
  const std::uint64_t count = end - begin;
  const auto view = [&](std::span<std::byte> bytes, DType dtype) {
    return TensorView(bytes.subspan(at * size_bytes(dtype), count * size_bytes(dtype)), dtype,
                      {static_cast<std::int64_t>(count)});
  };
  const OptimizerLayout::Views state = window.state->view(window.optimizer, at, count);
  const TensorView weight = view(window.weights, rule.dtype);
  const TensorView grad = view(window.gradients, window.gradient_dtype);
  const double weight_decay = decays(parameter) ? rule.adam.weight_decay : 0;
  if (is_sgd(rule.optimizer)) {
    sgd(stream, {.settings = {.learning_rate = rule.adam.learning_rate,
                              .momentum = rule.momentum,
                              .weight_decay = weight_decay,
                              .grad_scale = rule.adam.grad_scale},
                 .weight = weight,
                 .trailing = state.trailing,
                 .grad = grad,
                 .velocity = state.velocity});
    return;
  }
  AdamW args{.settings = rule.adam,
             .weight = weight,
             .trailing = state.trailing,
             .grad = grad,
             .m = state.m,
             .v = state.v,
             .m_absmax = state.m_absmax,
             .v_absmax = state.v_absmax,
             .seed = seed_of(rule, window.slice_idx),
             .first_element = static_cast<std::int64_t>(begin)};
  args.settings.weight_decay = weight_decay;
  parts.push_back(args);
}

}  // namespace

void update_windows(Stream& stream, const UpdateRule& rule, std::span<const UpdateWindow> windows) {
  std::vector<AdamW> parts;
  for (const UpdateWindow& window : windows) {
    for (const Parameter& parameter : window.layout->parameters()) update(stream, rule, window, parameter, parts);
  }
  if (!parts.empty()) adamw(stream, parts);
}

}  // namespace sluice
