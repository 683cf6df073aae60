// SPDX-License-Identifier: Apache-2.0
// Products of blocks that lie in cache, for kernels that are compiled once for each instruction set; include as
// simd-inl.h. An element of C is summed over k in order, in one chain of (fused) multiply-adds that starts from C or 0,
// so its bits do not depend on how the product is cut into tiles or which way round it is computed.
#if defined(SLUICE_OPS_CPU_BLOCK_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_BLOCK_PRODUCT_INL_H
#undef SLUICE_OPS_CPU_BLOCK_PRODUCT_INL_H
#else
#define SLUICE_OPS_CPU_BLOCK_PRODUCT_INL_H
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

enum class Sum { kFromZero, kOntoC };

// C (m, n) = or += A (m, k) B (k, n). A is read one element at a time, so it may lie either way round; B and C are
// dense in n, and their rows reach to a whole number of vectors.
struct BlockProduct {
  const float* a = nullptr;
  std::size_t a_row = 0;   // from A(i, k) to A(i + 1, k)
  std::size_t a_step = 0;  // from A(i, k) to A(i, k + 1)
  const float* b = nullptr;
  std::size_t b_row = 0;
  float* c = nullptr;
  std::size_t c_row = 0;
  std::size_t m = 0, n = 0, k = 0;
  Sum sum = Sum::kFromZero;
};

// Sums held in registers, beside the vectors of B and one element of A: 32 registers with AVX-512, 16 before.
#if HWY_TARGET <= HWY_AVX3
constexpr std::size_t kTileRows = 12;
#else
constexpr std::size_t kTileRows = 6;
#endif
constexpr std::size_t kTileVectors = 2;

template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void product_tile(const BlockProduct& product, std::size_t row, std::size_t col) {
  const F32Tag d;
  const std::size_t lanes = hn::Lanes(d);
  float* const c = product.c + row * product.c_row + col;
  F32 sums[kRows][kVectors];
  HWY_UNROLL(16)
  for (std::size_t i = 0; i < kRows; ++i) {
    HWY_UNROLL(4)
    for (std::size_t j = 0; j < kVectors; ++j) {
      sums[i][j] = product.sum == Sum::kOntoC ? hn::LoadU(d, c + i * product.c_row + j * lanes) : hn::Zero(d);
    }
  }
  const float* a = product.a + row * product.a_row;
  const float* b = product.b + col;
  for (std::size_t k = 0; k < product.k; ++k, a += product.a_step, b += product.b_row) {
    F32 b_lanes[kVectors];
    HWY_UNROLL(4)
    for (std::size_t j = 0; j < kVectors; ++j) b_lanes[j] = hn::LoadU(d, b + j * lanes);
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < kRows; ++i) {
      const F32 a_lanes = hn::Set(d, a[i * product.a_row]);
      HWY_UNROLL(4)
      for (std::size_t j = 0; j < kVectors; ++j) sums[i][j] = hn::MulAdd(a_lanes, b_lanes[j], sums[i][j]);
    }
  }
  HWY_UNROLL(16)
  for (std::size_t i = 0; i < kRows; ++i) {
    HWY_UNROLL(4)
    for (std::size_t j = 0; j < kVectors; ++j) hn::StoreU(sums[i][j], d, c + i * product.c_row + j * lanes);
  }
}

template <std::size_t kVectors>
HWY_NOINLINE void product_columns(const BlockProduct& product, std::size_t col) {
  std::size_t row = 0;
  for (; row + kTileRows <= product.m; row += kTileRows) product_tile<kTileRows, kVectors>(product, row, col);
  if constexpr (kTileRows > 8) {
    for (; row + 8 <= product.m; row += 8) product_tile<8, kVectors>(product, row, col);
  }
  for (; row + 4 <= product.m; row += 4) product_tile<4, kVectors>(product, row, col);
  for (; row < product.m; ++row) product_tile<1, kVectors>(product, row, col);
}

HWY_INLINE void multiply_blocks(const BlockProduct& product) {
  const F32Tag d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t col = 0;
  for (; col + lanes < product.n; col += kTileVectors * lanes) product_columns<kTileVectors>(product, col);
  if (col < product.n) product_columns<1>(product, col);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
