// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_write_avx512.h"

// gcc 12 takes the undefined vectors inside its own intrinsics for mistakes (gcc bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "base/check.h"
#include "hwy/base.h"

HWY_PUSH_ATTRIBUTES("avx,avx2,fma,avx512f,avx512bw,avx512vl,avx512dq")
namespace sluice::cpu {
namespace {

// 32 columns of a row.
struct Row {
  __m512 left;
  __m512 right;
};

struct Columns {
  __mmask32 all;
  __mmask16 left;
  __mmask16 right;
};

inline __m512 widen(__m256i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

inline Row load(const std::byte* from, DType dtype, Columns columns) {
  if (dtype == DType::kF32) {
    return {_mm512_maskz_loadu_ps(columns.left, from), _mm512_maskz_loadu_ps(columns.right, from + 64)};
  }
  return {widen(_mm256_maskz_loadu_epi16(columns.left, from)),
          widen(_mm256_maskz_loadu_epi16(columns.right, from + 32))};
}

inline Row add(Row a, Row b) { return {_mm512_add_ps(a.left, b.left), _mm512_add_ps(a.right, b.right)}; }

// As to_bf16() rounds; the upper half of each lane is the result.
inline __m512i rounded(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i half = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __m512i nearest = _mm512_mask_add_epi32(half, odd, half, _mm512_set1_epi32(1));
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(nearest, nan, bits, _mm512_set1_epi32(0x400000));
}

// The odd ones of 64 words.
alignas(64) constexpr std::uint16_t kUpperHalves[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                                        33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};

inline void store(std::byte* to, DType dtype, Columns columns, Row row) {
  if (dtype == DType::kF32) {
    _mm512_mask_storeu_ps(to, columns.left, row.left);
    _mm512_mask_storeu_ps(to + 64, columns.right, row.right);
    return;
  }
  const __m512i halves =
      _mm512_permutex2var_epi16(rounded(row.left), _mm512_load_si512(kUpperHalves), rounded(row.right));
  _mm512_mask_storeu_epi16(to, columns.all, halves);
}

}  // namespace

void write_avx512(const GemmOutput& output, const GemmPlace& place, const float* sums, std::int64_t stride) {
  CHECK(place.num_n <= 32, "a tile has 32 columns at most");
  const auto all = static_cast<__mmask32>((std::uint64_t{1} << static_cast<unsigned>(place.num_n)) - 1U);
  const Columns columns{.all = all, .left = static_cast<__mmask16>(all), .right = static_cast<__mmask16>(all >> 16)};
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(output.c_dtype));
  Row bias{_mm512_setzero_ps(), _mm512_setzero_ps()};
  if (output.bias != nullptr) {
    const auto bias_bytes = static_cast<std::int64_t>(size_bytes(output.bias_dtype));
    bias = load(output.bias + place.n * bias_bytes, output.bias_dtype, columns);
  }
  std::byte* to = output.c + (place.m * output.num_columns + place.n) * element_bytes;
  for (std::int64_t m = 0; m < place.num_m; ++m) {
    Row row{_mm512_maskz_loadu_ps(columns.left, sums), _mm512_maskz_loadu_ps(columns.right, sums + 16)};
    if (output.bias != nullptr) row = add(row, bias);
    if (output.into == Into::kAdd) row = add(row, load(to, output.c_dtype, columns));
    store(to, output.c_dtype, columns, row);
    sums += stride;
    to += output.num_columns * element_bytes;
  }
}

}  // namespace sluice::cpu
HWY_POP_ATTRIBUTES
