// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/norm.h"

#include <cmath>
#include <optional>

#include "base/bf16.h"
#include "ops/cpu/row_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/norm.cc"  // NOLINT
#include "hwy/foreach_target.h"               // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

struct Statistics {
  float mean;     // 0 for RMS
  float inverse;  // of the deviation: x-hat = (x - mean) * inverse
};

// LayerNorm goes twice over x: a variance as the difference of two sums would cancel.
template <typename T>
Statistics statistics(NormKind kind, float eps, const T* x, std::size_t dim) {
  const F32Tag d;
  const auto count = static_cast<double>(dim);
  float mean = 0;
  if (kind == NormKind::kLayer) {
    mean = static_cast<float>(
        sum_over_lanes(dim, [&](std::size_t at, auto part) SLUICE_LANES { return part.load(d, x + at); }) / count);
  }
  const F32 mean_lanes = hn::Set(d, mean);
  const double squares = sum_over_lanes(dim, [&](std::size_t at, auto part) SLUICE_LANES {
    const F32 centred = hn::Sub(part.load(d, x + at), mean_lanes);
    return hn::Mul(centred, centred);
  });
  return {mean, static_cast<float>(1 / std::sqrt(squares / count + static_cast<double>(eps)))};
}

template <typename T>
void forward_run(const NormForward& args, const T* x, T* y, std::size_t dim) {
  const F32Tag d;
  const Statistics stats = statistics(args.kind, args.eps, x, dim);
  const F32 mean = hn::Set(d, stats.mean);
  const F32 inverse = hn::Set(d, stats.inverse);
  const F32 weight_offset = hn::Set(d, args.kind == NormKind::kRmsPlusOne ? 1.0F : 0.0F);
  const T* weight = args.weight.as<T>().data();
  const T* bias = args.bias.bytes().empty() ? nullptr : args.bias.as<T>().data();
  over_lanes(0, dim, [&](std::size_t at, auto part) SLUICE_LANES {
    const F32 x_hat = hn::Mul(hn::Sub(part.load(d, x + at), mean), inverse);
    F32 out = hn::Mul(x_hat, hn::Add(part.load(d, weight + at), weight_offset));
    if (bias != nullptr) out = hn::Add(out, part.load(d, bias + at));
    part.store(d, out, y + at);
  });
}

// With g = dy * w: dx = (g - mean(g) - x-hat * mean(g * x-hat)) * inverse, without mean(g) for RMS.
template <typename T>
void backward_run(const NormBackward& args, std::size_t first, std::size_t dim, float* dweight, float* dbias) {
  const F32Tag d;
  const T* x = args.x.as<T>().data() + first;
  const T* dy = args.dy.as<T>().data() + first;
  T* dx = args.dx.as<T>().data() + first;
  const T* weight = args.weight.as<T>().data();
  const F32 weight_offset = hn::Set(d, args.kind == NormKind::kRmsPlusOne ? 1.0F : 0.0F);
  const Statistics stats = statistics(args.kind, args.eps, x, dim);
  const F32 mean = hn::Set(d, stats.mean);
  const F32 inverse = hn::Set(d, stats.inverse);

  const double g_x_hat = sum_over_lanes(dim, [&](std::size_t at, auto part) SLUICE_LANES {
    const F32 x_hat = hn::Mul(hn::Sub(part.load(d, x + at), mean), inverse);
    const F32 dy_x_hat = hn::Mul(part.load(d, dy + at), x_hat);
    if (dweight != nullptr) part.store(d, hn::Add(part.load(d, dweight + at), dy_x_hat), dweight + at);
    return hn::Mul(dy_x_hat, hn::Add(part.load(d, weight + at), weight_offset));
  });
  double g_sum = 0;
  if (args.kind == NormKind::kLayer) {
    g_sum = sum_over_lanes(dim, [&](std::size_t at, auto part) SLUICE_LANES {
      const F32 grad = part.load(d, dy + at);
      if (dbias != nullptr) part.store(d, hn::Add(part.load(d, dbias + at), grad), dbias + at);
      return hn::Mul(grad, part.load(d, weight + at));
    });
  }

  const F32 g_x_hat_mean = hn::Set(d, static_cast<float>(g_x_hat / static_cast<double>(dim)));
  const F32 g_mean = hn::Set(d, static_cast<float>(g_sum / static_cast<double>(dim)));
  over_lanes(0, dim, [&](std::size_t at, auto part) SLUICE_LANES {
    const F32 x_hat = hn::Mul(hn::Sub(part.load(d, x + at), mean), inverse);
    const F32 g = hn::Mul(part.load(d, dy + at), hn::Add(part.load(d, weight + at), weight_offset));
    const F32 along = hn::NegMulAdd(x_hat, g_x_hat_mean, hn::Sub(g, g_mean));
    part.store(d, hn::Mul(along, inverse), dx + at);
  });
}

// run(first element of the run) for every run of the rows.
template <typename Run>
void over_runs(const TensorView& x, const NormColumns& columns, std::size_t dim, std::int64_t first_row,
               std::int64_t num_rows, const Run& run) {
  const std::int64_t width = x.shape()[1];
  for (std::int64_t row = first_row; row < first_row + num_rows; ++row) {
    auto first = static_cast<std::size_t>(row * width + columns.first_col);
    for (std::int64_t run_idx = 0; run_idx < columns.num_runs; ++run_idx, first += dim) run(first);
  }
}

void forward_rows(const NormForward& args, std::int64_t first_row, std::int64_t num_rows) {
  const auto dim = static_cast<std::size_t>(args.weight.shape()[0]);
  over_runs(args.x, args.columns, dim, first_row, num_rows, [&](std::size_t first) {
    if (args.x.dtype() == DType::kF32) {
      forward_run(args, args.x.as<float>().data() + first, args.y.as<float>().data() + first, dim);
    } else {
      forward_run(args, args.x.as<BF16>().data() + first, args.y.as<BF16>().data() + first, dim);
    }
  });
}

void backward_rows(const NormBackward& args, std::int64_t first_row, std::int64_t num_rows, float* dweight,
                   float* dbias) {
  const auto dim = static_cast<std::size_t>(args.weight.shape()[0]);
  over_runs(args.x, args.columns, dim, first_row, num_rows, [&](std::size_t first) {
    if (args.x.dtype() == DType::kF32) {
      backward_run<float>(args, first, dim, dweight, dbias);
    } else {
      backward_run<BF16>(args, first, dim, dweight, dbias);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(forward_rows);
HWY_EXPORT(backward_rows);

}  // namespace

void norm_forward(WorkerTeam& team, const NormForward& args) {
  const std::int64_t num_rows = args.x.shape()[0];
  team.for_each(num_rows, [&](std::int64_t row, std::size_t) { HWY_DYNAMIC_DISPATCH(forward_rows)(args, row, 1); });
}

void norm_backward(WorkerTeam& team, const NormBackward& args) {
  const RowBlocks blocks(args.x.shape()[0]);
  std::optional<BlockSums> dweight;
  std::optional<BlockSums> dbias;
  if (!args.dweight.bytes().empty()) dweight.emplace(blocks, args.weight.shape()[0]);
  if (!args.dbias.bytes().empty()) dbias.emplace(blocks, args.weight.shape()[0]);
  team.for_each(blocks.count(), [&](std::int64_t idx, std::size_t) {
    HWY_DYNAMIC_DISPATCH(backward_rows)
    (args, blocks.first_row(idx), blocks.num_rows(idx), dweight ? dweight->of_block(idx) : nullptr,
     dbias ? dbias->of_block(idx) : nullptr);
  });
  if (dweight) dweight->add_to(team, args.dweight.as<float>());
  if (dbias) dbias->add_to(team, args.dbias.as<float>());
}

}  // namespace sluice::cpu
#endif
