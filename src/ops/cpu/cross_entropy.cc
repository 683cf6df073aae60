// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "base/bf16.h"
#include "base/error.h"
#include "ops/cpu/items.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/cross_entropy.cc"  // NOLINT
#include "hwy/foreach_target.h"                        // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/math-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

// What a logit becomes, and the slope of that.
struct Capped {
  F32 value;
  F32 slope;
};

struct NoCap {
  HWY_INLINE Capped of(F32Tag d, F32 logit) const { return {logit, hn::Set(d, 1.0F)}; }
};

struct TanhCap {
  float cap;

  HWY_INLINE Capped of(F32Tag d, F32 logit) const {
    const TanhSlope turned = tanh_of(d, hn::Div(logit, hn::Set(d, cap)));
    return {hn::Mul(turned.tanh, hn::Set(d, cap)), turned.slope};
  }
};

template <class Cap>
float capped(const Cap& cap, float logit) {
  const F32Tag d;
  return hn::GetLane(cap.of(d, hn::Set(d, logit)).value);
}

inline float largest_of(const float* logits, std::size_t vocab) {
  const F32Tag d;
  const F32 lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  F32 largest = lowest;
  over_lanes(0, vocab, [&](std::size_t at, auto part) SLUICE_LANES {
    largest = hn::Max(largest, part.keep(d, part.load(d, logits + at), lowest));
  });
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// What the gradient of a row needs.
struct RowSoftmax {
  float largest;  // capped logit
  double sum;     // of exp(capped logit - largest)
};

template <class Cap>
RowSoftmax softmax_of(const Cap& cap, const float* logits, std::size_t vocab) {
  const F32Tag d;
  const float largest = capped(cap, largest_of(logits, vocab));  // the cap keeps the order
  const F32 largest_lanes = hn::Set(d, largest);
  const double sum = sum_over_lanes(vocab, [&](std::size_t at, auto part) SLUICE_LANES {
    return exp_of(d, hn::Sub(cap.of(d, part.load(d, logits + at)).value, largest_lanes));
  });
  return {largest, sum};
}

// dlogits may be logits. A label that is not below vocab is in another range.
template <class Cap, typename T>
void gradient_of(const Cap& cap, const RowSoftmax& row, std::size_t label_at, const float* logits, T* dlogits,
                 std::size_t vocab, float grad_scale) {
  const F32Tag d;
  const F32 largest = hn::Set(d, row.largest);
  const auto factor = static_cast<float>(static_cast<double>(grad_scale) / row.sum);
  const F32 factor_lanes = hn::Set(d, factor);
  // The label's is (p - 1) * scale, with p as it is in the sum; made apart, since the loop may write over its logit.
  HWY_ALIGN float label_grad[HWY_MAX_BYTES / sizeof(float)] = {};
  if (label_at < vocab) {
    const Capped label = cap.of(d, hn::Set(d, logits[label_at]));
    const double p = static_cast<double>(hn::GetLane(exp_of(d, hn::Sub(label.value, largest)))) / row.sum;
    hn::Store(hn::Mul(label.slope, hn::Set(d, static_cast<float>((p - 1) * static_cast<double>(grad_scale)))), d,
              label_grad);
  }
  over_lanes(0, vocab, [&](std::size_t at, auto part) SLUICE_LANES {
    const Capped logit = cap.of(d, part.load(d, logits + at));
    const F32 grad = hn::Mul(exp_of(d, hn::Sub(logit.value, largest)), factor_lanes);
    part.store(d, hn::Mul(grad, logit.slope), dlogits + at);
  });
  if (label_at >= vocab) return;
  if constexpr (sizeof(T) == sizeof(float)) {
    dlogits[label_at] = label_grad[0];
  } else {
    dlogits[label_at] = to_bf16(label_grad[0]);
  }
}

template <class Cap>
void entropy_of_row(const CrossEntropy& args, const Cap& cap, std::int64_t token, std::size_t label) {
  const auto vocab = static_cast<std::size_t>(args.logits.shape()[1]);
  const std::size_t first = static_cast<std::size_t>(token) * vocab;
  const float* logits = args.logits.as<float>().data() + first;
  const RowSoftmax row = softmax_of(cap, logits, vocab);
  const double above_label = static_cast<double>(row.largest) - static_cast<double>(capped(cap, logits[label]));
  args.losses.as<float>()[static_cast<std::size_t>(token)] = static_cast<float>(std::log(row.sum) + above_label);
  if (args.dlogits.bytes().empty()) return;
  if (args.dlogits.dtype() == DType::kF32) {
    gradient_of(cap, row, label, logits, args.dlogits.as<float>().data() + first, vocab, args.grad_scale);
  } else {
    gradient_of(cap, row, label, logits, args.dlogits.as<BF16>().data() + first, vocab, args.grad_scale);
  }
}

template <class Cap>
void statistics_of_row(const SoftmaxRange& args, const Cap& cap, std::int64_t token, std::size_t label) {
  const auto width = static_cast<std::size_t>(args.logits.shape()[1]);
  const float* logits = args.logits.as<float>().data() + static_cast<std::size_t>(token) * width;
  const RowSoftmax row = softmax_of(cap, logits, width);
  const std::span<std::byte> bytes = args.statistics.rows(token, 1).bytes();
  Statistics all{row.largest, 0, row.sum};
  if (args.into == Into::kAdd) {
    std::memcpy(&all, bytes.data(), sizeof all);
    const float largest = std::max(all.largest, row.largest);
    const auto shrunk = [&](double sum, float from) {
      return sum * std::exp(static_cast<double>(from) - static_cast<double>(largest));
    };
    all.sum = shrunk(all.sum, all.largest) + shrunk(row.sum, row.largest);
    all.largest = largest;
  }
  if (label < width) all.label = capped(cap, logits[label]);
  std::memcpy(bytes.data(), &all, sizeof all);
}

void statistics_row(const SoftmaxRange& args, std::int64_t token, std::size_t label) {
  args.soft_cap > 0 ? statistics_of_row(args, TanhCap{args.soft_cap}, token, label)
                    : statistics_of_row(args, NoCap(), token, label);
}

template <class Cap>
void range_gradient_of_row(const SoftmaxGradient& args, const Cap& cap, std::int64_t token, std::size_t label) {
  const auto width = static_cast<std::size_t>(args.logits.shape()[1]);
  const std::size_t first = static_cast<std::size_t>(token) * width;
  const float* logits = args.logits.as<float>().data() + first;
  Statistics all;
  std::memcpy(&all, args.statistics.rows(token, 1).bytes().data(), sizeof all);
  const RowSoftmax row{all.largest, all.sum};
  if (args.dlogits.dtype() == DType::kF32) {
    gradient_of(cap, row, label, logits, args.dlogits.as<float>().data() + first, width, args.grad_scale);
  } else {
    gradient_of(cap, row, label, logits, args.dlogits.as<BF16>().data() + first, width, args.grad_scale);
  }
}

void range_gradient_row(const SoftmaxGradient& args, std::int64_t token, std::size_t label) {
  args.soft_cap > 0 ? range_gradient_of_row(args, TanhCap{args.soft_cap}, token, label)
                    : range_gradient_of_row(args, NoCap(), token, label);
}

void entropy_row(const CrossEntropy& args, std::int64_t token, std::size_t label) {
  args.soft_cap > 0 ? entropy_of_row(args, TanhCap{args.soft_cap}, token, label)
                    : entropy_of_row(args, NoCap(), token, label);
}

void cap_range(float* values, std::size_t count, float cap) {
  const F32Tag d;
  over_lanes(0, count, [&](std::size_t at, auto part) SLUICE_LANES {
    part.store(d, TanhCap{cap}.of(d, part.load(d, values + at)).value, values + at);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(entropy_row);
HWY_EXPORT(statistics_row);
HWY_EXPORT(range_gradient_row);
HWY_EXPORT(cap_range);

constexpr std::int64_t kItemElements = 1 << 14;

void ignore_row(const CrossEntropy& args, std::int64_t token) {
  args.losses.as<float>()[static_cast<std::size_t>(token)] = 0;
  if (args.dlogits.bytes().empty()) return;
  const std::span<std::byte> grads = args.dlogits.rows(token, 1).bytes();
  std::fill(grads.begin(), grads.end(), std::byte{0});
}

}  // namespace

void cross_entropy(WorkerTeam& team, const CrossEntropy& args) {
  const std::int64_t vocab = args.logits.shape()[1];
  const std::span<const std::int32_t> labels = args.labels.as<std::int32_t>();
  for (std::size_t token = 0; token < labels.size(); ++token) {
    if (labels[token] != kIgnoreLabel && (labels[token] < 0 || labels[token] >= vocab)) {
      throw InvalidInput(
          fmt::format("Token {} has the label {}, but the vocabulary has ids 0 to {}: use the tokenizer "
                      "that belongs to the model.",
                      token, labels[token], vocab - 1));
    }
  }
  team.for_each(args.logits.shape()[0], [&](std::int64_t token, std::size_t) {
    const std::int32_t label = labels[static_cast<std::size_t>(token)];
    if (label == kIgnoreLabel) {
      ignore_row(args, token);
    } else {
      HWY_DYNAMIC_DISPATCH(entropy_row)(args, token, static_cast<std::size_t>(label));
    }
  });
}

// Labels of other ranges wrap to numbers beyond any range.
void softmax_statistics(WorkerTeam& team, const SoftmaxRange& args) {
  const std::span<const std::int32_t> labels = args.labels.as<std::int32_t>();
  team.for_each(args.logits.shape()[0], [&](std::int64_t token, std::size_t) {
    const std::int32_t label = labels[static_cast<std::size_t>(token)];
    if (label == kIgnoreLabel) return;
    HWY_DYNAMIC_DISPATCH(statistics_row)(args, token, static_cast<std::size_t>(label - args.first_id));
  });
}

void losses_of_statistics(WorkerTeam& team, const TensorView& statistics, const TensorView& labels,
                          const TensorView& losses) {
  const std::span<const std::int32_t> of = labels.as<std::int32_t>();
  const std::span<float> to = losses.as<float>();
  constexpr std::int64_t kItemTokens = 256;
  over_items(team, static_cast<std::int64_t>(of.size()), kItemTokens, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t token = first; token < first + count; ++token) {
      const auto at = static_cast<std::size_t>(token);
      to[at] = 0;
      if (of[at] == kIgnoreLabel) continue;
      Statistics all;
      std::memcpy(&all, statistics.rows(token, 1).bytes().data(), sizeof all);
      to[at] =
          static_cast<float>(std::log(all.sum) + (static_cast<double>(all.largest) - static_cast<double>(all.label)));
    }
  });
}

void softmax_gradient(WorkerTeam& team, const SoftmaxGradient& args) {
  const std::span<const std::int32_t> labels = args.labels.as<std::int32_t>();
  team.for_each(args.logits.shape()[0], [&](std::int64_t token, std::size_t) {
    const std::int32_t label = labels[static_cast<std::size_t>(token)];
    if (label == kIgnoreLabel) {
      const std::span<std::byte> grads = args.dlogits.rows(token, 1).bytes();
      std::fill(grads.begin(), grads.end(), std::byte{0});
    } else {
      HWY_DYNAMIC_DISPATCH(range_gradient_row)(args, token, static_cast<std::size_t>(label - args.first_id));
    }
  });
}

void soft_cap(WorkerTeam& team, const TensorView& values, float cap) {
  over_items(team, values.shape().num_elements(), kItemElements, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(cap_range)(values.as<float>().data() + first, static_cast<std::size_t>(count), cap);
  });
}

}  // namespace sluice::cpu
#endif
