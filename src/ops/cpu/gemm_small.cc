// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_small.h"

#include <algorithm>

#include "base/bf16.h"
#include "ops/cpu/gemm_scratch.h"
#include "ops/cpu/items.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/gemm_small.cc"  // NOLINT
#include "hwy/foreach_target.h"                     // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/simd-inl.h"

#ifndef SLUICE_OPS_CPU_GEMM_SMALL_ONCE
#define SLUICE_OPS_CPU_GEMM_SMALL_ONCE
namespace sluice::cpu {

// The weight's rows that one item multiplies.
constexpr std::int64_t kItemColumns = 32;

struct SmallItem {
  float* sums = nullptr;     // (m, kItemColumns)
  const float* a = nullptr;  // (m, k)
  std::int64_t num_rows = 0;
  const std::byte* b = nullptr;  // (num_columns, k)
  DType b_dtype = DType::kF32;
  std::int64_t num_columns = 0;
  std::int64_t k = 0;
};

}  // namespace sluice::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

// kRows rows of A with kColumns of B. The sums of an element do not depend on which others are made beside it.
template <typename T, int kRows, int kColumns>
void sum_products(float* sums, const float* a, const T* b, std::int64_t k) {
  const F32Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  F32 totals[kRows][kColumns];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int column = 0; column < kColumns; ++column) totals[row][column] = hn::Zero(d);
  }
  std::int64_t at = 0;
  for (; at + lanes <= k; at += lanes) {
    F32 weights[kColumns];
#pragma GCC unroll 8
    for (int column = 0; column < kColumns; ++column) weights[column] = load(d, b + column * k + at);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const F32 values = hn::LoadU(d, a + row * k + at);
#pragma GCC unroll 8
      for (int column = 0; column < kColumns; ++column) {
        totals[row][column] = hn::MulAdd(values, weights[column], totals[row][column]);
      }
    }
  }
  const auto rest = static_cast<std::size_t>(k - at);
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int column = 0; column < kColumns; ++column) {
      F32 total = totals[row][column];
      if (rest > 0) {
        total = hn::MulAdd(load_part(d, a + row * k + at, rest), load_part(d, b + column * k + at, rest), total);
      }
      sums[row * kItemColumns + column] = hn::GetLane(hn::SumOfLanes(d, total));
    }
  }
}

template <typename T, int kRows>
void sum_columns(const SmallItem& item, std::int64_t row) {
  // As many sums as registers hold beside what they are made of.
  constexpr int kRegisters = HWY_TARGET == HWY_AVX3 ? 16 : 8;
  constexpr int kColumns = std::min(8, kRegisters / kRows);
  const auto* const b = reinterpret_cast<const T*>(item.b);
  const float* const a = item.a + row * item.k;
  float* const sums = item.sums + row * kItemColumns;
  std::int64_t column = 0;
  for (; column + kColumns <= item.num_columns; column += kColumns) {
    sum_products<T, kRows, kColumns>(sums + column, a, b + column * item.k, item.k);
  }
  for (; column < item.num_columns; ++column) {
    sum_products<T, kRows, 1>(sums + column, a, b + column * item.k, item.k);
  }
}

template <typename T>
void sum_rows(const SmallItem& item) {
  std::int64_t row = 0;
  for (; row + 8 <= item.num_rows; row += 8) sum_columns<T, 8>(item, row);
  for (; row + 4 <= item.num_rows; row += 4) sum_columns<T, 4>(item, row);
  for (; row + 2 <= item.num_rows; row += 2) sum_columns<T, 2>(item, row);
  for (; row < item.num_rows; ++row) sum_columns<T, 1>(item, row);
}

void sum_item(const SmallItem& item) {
  if (item.b_dtype == DType::kF32) {
    sum_rows<float>(item);
  } else {
    sum_rows<BF16>(item);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

constexpr std::int64_t kMaxRows = 8;

using SumItem = void (*)(const SmallItem&);

SumItem sum_item_of(GemmPath path) {
  if (path >= GemmPath::kAvx512) return N_AVX3::sum_item;
  if (path == GemmPath::kAvx2) return N_AVX2::sum_item;
  return HWY_STATIC_DISPATCH(sum_item);
}

void widen(float* to, const Gemm& args, const GemmExtents& extents) {
  const bool is_km = args.transpose_a == Transpose::kYes;
  for (std::int64_t m = 0; m < extents.m; ++m) {
    for (std::int64_t k = 0; k < extents.k; ++k) {
      const auto at = static_cast<std::size_t>(is_km ? k * extents.m + m : m * extents.k + k);
      to[m * extents.k + k] =
          args.a.dtype() == DType::kF32 ? args.a.as<float>().data()[at] : to_float(args.a.as<BF16>().data()[at]);
    }
  }
}

}  // namespace

bool gemm_small_takes(const Gemm& args) {
  const GemmExtents extents = gemm_extents(args);
  return extents.m <= kMaxRows && extents.k > 0 && args.transpose_b == Transpose::kYes;
}

void gemm_small(WorkerTeam& team, const Gemm& args, GemmPath path, decltype(GemmKernel::write) write) {
  const GemmExtents extents = gemm_extents(args);
  const auto num_elements = static_cast<std::uint64_t>(extents.m * extents.k);
  auto* const a = reinterpret_cast<float*>(gemm_scratch(num_elements * sizeof(float)).data());
  widen(a, args, extents);
  const GemmOutput output = gemm_output(args);
  const SumItem sum_item = sum_item_of(path);
  const auto row_bytes = extents.k * static_cast<std::int64_t>(size_bytes(args.b.dtype()));
  over_items(team, extents.n, kItemColumns, [&](std::int64_t first, std::int64_t num_columns) {
    alignas(64) float sums[kMaxRows * kItemColumns];
    sum_item({.sums = sums,
              .a = a,
              .num_rows = extents.m,
              .b = args.b.bytes().data() + first * row_bytes,
              .b_dtype = args.b.dtype(),
              .num_columns = num_columns,
              .k = extents.k});
    write(output, {.m = 0, .n = first, .num_m = extents.m, .num_n = num_columns}, sums, kItemColumns);
  });
}

}  // namespace sluice::cpu
#endif
