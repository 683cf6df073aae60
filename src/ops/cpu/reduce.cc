// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/reduce.h"

#include <cstdint>
#include <vector>

#include "base/bf16.h"
#include "base/units.h"
#include "ops/cpu/items.h"
#include "ops/cpu/row_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/reduce.cc"  // NOLINT
#include "hwy/foreach_target.h"                 // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

template <typename T>
void sum_rows_typed(float* sums, const T* rows, std::size_t num_rows, std::size_t num_cols) {
  const F32Tag d;
  for (std::size_t row = 0; row < num_rows; ++row) {
    const T* from = rows + row * num_cols;
    over_lanes(0, num_cols, [&](std::size_t at, auto part) SLUICE_LANES {
      part.store(d, hn::Add(part.load(d, sums + at), part.load(d, from + at)), sums + at);
    });
  }
}

void sum_rows(float* sums, const TensorView& rows, std::int64_t first_row, std::int64_t num_rows) {
  const std::int64_t num_cols = rows.shape()[1];
  const std::int64_t first = first_row * num_cols;
  const auto count = static_cast<std::size_t>(num_rows);
  const auto width = static_cast<std::size_t>(num_cols);
  rows.dtype() == DType::kF32 ? sum_rows_typed(sums, rows.as<float>().data() + first, count, width)
                              : sum_rows_typed(sums, rows.as<BF16>().data() + first, count, width);
}

using F64Tag = hn::ScalableTag<double>;
using F64 = hn::Vec<F64Tag>;

HWY_INLINE F64 load_double(F64Tag d, const float* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, F64Tag>(), from));
}

HWY_INLINE F64 load_double(F64Tag d, const BF16* from) {
  const hn::Rebind<std::uint16_t, F64Tag> d16;
  const hn::Rebind<std::uint32_t, F64Tag> d32;
  const hn::Rebind<float, F64Tag> d_float;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from)));
  return hn::PromoteTo(d, hn::BitCast(d_float, hn::ShiftLeft<16>(bits)));
}

template <typename T>
double squares_typed(const T* values, std::size_t count) {
  const F64Tag d;
  const std::size_t lanes = hn::Lanes(d);
  F64 even = hn::Zero(d);  // two, so that one addition need not wait for the last
  F64 odd = hn::Zero(d);
  std::size_t at = 0;
  for (; at + 2 * lanes <= count; at += 2 * lanes) {
    const F64 a = load_double(d, values + at);
    const F64 b = load_double(d, values + at + lanes);
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; at < count; ++at) {
    double value = 0;
    if constexpr (sizeof(T) == sizeof(float)) {
      value = static_cast<double>(values[at]);
    } else {
      value = static_cast<double>(to_float(values[at]));
    }
    sum += value * value;
  }
  return sum;
}

double squares(const TensorView& values, std::size_t first, std::size_t count) {
  return values.dtype() == DType::kF32 ? squares_typed(values.as<float>().data() + first, count)
                                       : squares_typed(values.as<BF16>().data() + first, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(sum_rows);
HWY_EXPORT(squares);

constexpr std::int64_t kItemElements = 1 << 16;

}  // namespace

void add_column_sums(WorkerTeam& team, const TensorView& sums, const TensorView& rows) {
  const RowBlocks blocks(rows.shape()[0]);
  BlockSums partial(blocks, rows.shape()[1]);
  team.for_each(blocks.count(), [&](std::int64_t idx, std::size_t) {
    HWY_DYNAMIC_DISPATCH(sum_rows)(partial.of_block(idx), rows, blocks.first_row(idx), blocks.num_rows(idx));
  });
  partial.add_to(team, sums.as<float>());
}

void sum_of_squares(WorkerTeam& team, const TensorView& sum, const TensorView& values) {
  const std::int64_t total = values.shape().num_elements();
  std::vector<double> partial(div_ceil(total, kItemElements));
  over_items(team, total, kItemElements, [&](std::int64_t first, std::int64_t count) {
    partial[static_cast<std::size_t>(first / kItemElements)] =
        HWY_DYNAMIC_DISPATCH(squares)(values, static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  });
  double merged = 0;
  for (const double value : partial) merged += value;
  sum.as<float>()[0] = static_cast<float>(merged);
}

}  // namespace sluice::cpu
#endif
