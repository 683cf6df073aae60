// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_vector.h"

#include <algorithm>
#include <type_traits>

#include "base/bf16.h"
#include "base/check.h"
#include "ops/cpu/gemm_pack_avx512.h"
#include "ops/cpu/gemm_write_avx512.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/gemm_vector.cc"  // NOLINT
#include "hwy/foreach_target.h"                      // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

// Sums fill the registers that are left beside two vectors of columns and one broadcast row: 28 of 32, or 12 of 16.
#if HWY_TARGET == HWY_AVX3
constexpr int kRows = kAvx512Rows;
#else
constexpr int kRows = 6;
#endif
constexpr int kVectors = 2;
constexpr int kColumns = kVectors * static_cast<int>(HWY_LANES(float));

void multiply(const GemmTile& tile) {
  const F32Tag d;
  constexpr int kLanes = static_cast<int>(HWY_LANES(float));
  F32 sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int at = 0; at < kVectors; ++at) {
      sums[row][at] = tile.is_first ? hn::Zero(d) : hn::Load(d, tile.sums + row * kColumns + at * kLanes);
    }
  }
  const auto* rows = reinterpret_cast<const float*>(tile.rows);
  const auto* columns = reinterpret_cast<const float*>(tile.columns);
  for (std::int64_t k = 0; k < tile.num_k; ++k) {
    const F32 first = hn::Load(d, columns);
    const F32 second = hn::Load(d, columns + kLanes);
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const F32 value = hn::Set(d, rows[row]);
      sums[row][0] = hn::MulAdd(value, first, sums[row][0]);
      sums[row][1] = hn::MulAdd(value, second, sums[row][1]);
    }
    rows += kRows;
    columns += kColumns;
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int at = 0; at < kVectors; ++at) hn::Store(sums[row][at], d, tile.sums + row * kColumns + at * kLanes);
  }
}

#if HWY_TARGET != HWY_AVX3

template <typename Out, typename Bias>
void write_rows(const GemmOutput& output, const GemmPlace& place, const float* sums, std::int64_t stride) {
  const F32Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = 0; row < place.num_m; ++row) {
    const float* const from = sums + row * stride;
    Out* const to = reinterpret_cast<Out*>(output.c) + (place.m + row) * output.num_columns + place.n;
    const Bias* const bias = output.bias == nullptr ? nullptr : reinterpret_cast<const Bias*>(output.bias) + place.n;
    std::int64_t at = 0;
    for (; at + lanes <= place.num_n; at += lanes) {
      F32 value = hn::LoadU(d, from + at);
      if (bias != nullptr) value = hn::Add(value, load(d, bias + at));
      if (output.into == Into::kAdd) value = hn::Add(value, load(d, to + at));
      store(d, value, to + at);
    }
    if (at < place.num_n) {
      const auto rest = static_cast<std::size_t>(place.num_n - at);
      F32 value = load_part(d, from + at, rest);
      if (bias != nullptr) value = hn::Add(value, load_part(d, bias + at, rest));
      if (output.into == Into::kAdd) value = hn::Add(value, load_part(d, to + at, rest));
      HWY_ALIGN Out lanes_out[HWY_LANES(float)] = {};
      store(d, value, lanes_out);
      std::copy(lanes_out, lanes_out + rest, to + at);
    }
  }
}

void write(const GemmOutput& output, const GemmPlace& place, const float* sums, std::int64_t stride) {
  const bool bias_is_f32 = output.bias_dtype == DType::kF32;
  if (output.c_dtype == DType::kF32) {
    (bias_is_f32 ? write_rows<float, float> : write_rows<float, BF16>)(output, place, sums, stride);
  } else {
    (bias_is_f32 ? write_rows<BF16, float> : write_rows<BF16, BF16>)(output, place, sums, stride);
  }
}

template <typename T, int kWidth>
void pack_panel(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  auto* const floats = reinterpret_cast<float*>(to);
  const auto as_float = [](T value) {
    if constexpr (std::is_same_v<T, float>) {
      return value;
    } else {
      return to_float(value);
    }
  };
  if (num_rows < kWidth) std::fill(floats, floats + num_k * kWidth, 0.0F);
  if (from.k_stride == 1) {
    for (std::int64_t row = 0; row < num_rows; ++row) {
      const auto* const source = reinterpret_cast<const T*>(from.at(row, 0));
      for (std::int64_t k = 0; k < num_k; ++k) floats[k * kWidth + row] = as_float(source[k]);
    }
  } else {
    for (std::int64_t k = 0; k < num_k; ++k) {
      const auto* const source = reinterpret_cast<const T*>(from.at(0, k));
      for (std::int64_t row = 0; row < num_rows; ++row) floats[k * kWidth + row] = as_float(source[row]);
    }
  }
}

template <typename T, int kWidth>
void pack(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  GemmSource panel = from;
  for (std::int64_t row = 0; row < num_rows; row += kWidth, to += kWidth * num_k * std::int64_t{sizeof(float)}) {
    panel.data = from.at(row, 0);
    pack_panel<T, kWidth>(to, panel, std::min<std::int64_t>(kWidth, num_rows - row), num_k);
  }
}

#endif  // AVX-512 has a writing and a packing of its own

GemmKernel kernel(DType dtype) {
  const bool is_f32 = dtype == DType::kF32;
  GemmKernel made{.rows = kRows,
                  .columns = kColumns,
                  .k_step = 1,
                  .panel_k = 256,
                  .packed_bytes = sizeof(float),
                  .max_local = 192,
                  .max_shared = 512,
                  .local_cost = 8,
                  .shared_cost = 4,
                  .multiply = multiply};
#if HWY_TARGET == HWY_AVX3
  made.write = write_avx512;
  made.pack_rows = is_f32 ? pack_vector_panels<PackedWord::kFloat, kAvx512Rows>
                          : pack_vector_panels<PackedWord::kWidenedFloat, kAvx512Rows>;
  made.pack_columns = is_f32 ? pack_vector_panels<PackedWord::kFloat, kAvx512Columns>
                             : pack_vector_panels<PackedWord::kWidenedFloat, kAvx512Columns>;
#else
  made.write = write;
  made.pack_rows = is_f32 ? pack<float, kRows> : pack<BF16, kRows>;
  made.pack_columns = is_f32 ? pack<float, kColumns> : pack<BF16, kColumns>;
#endif
  return made;
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

#if (HWY_TARGETS & HWY_AVX3) == 0 || (HWY_TARGETS & HWY_AVX2) == 0
#error "the paths of a matrix product are made for x86-64"
#endif

GemmKernel avx512_kernel(DType dtype) { return N_AVX3::kernel(dtype); }
GemmKernel avx2_kernel(DType dtype) { return N_AVX2::kernel(dtype); }
GemmKernel baseline_kernel(DType dtype) { return HWY_STATIC_DISPATCH(kernel)(dtype); }

}  // namespace sluice::cpu
#endif
