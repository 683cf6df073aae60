// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_avx512_bf16.h"

// gcc 12 takes the undefined vectors inside its own intrinsics for mistakes (gcc bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cstring>

#include "hwy/base.h"
#include "ops/cpu/gemm_pack_avx512.h"
#include "ops/cpu/gemm_write_avx512.h"

HWY_PUSH_ATTRIBUTES("avx,avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")
namespace sluice::cpu {
namespace {

constexpr int kRows = kAvx512Rows;
constexpr int kColumns = kAvx512Columns;

void multiply(const GemmTile& tile) {
  __m512 sums[kRows][2];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    sums[row][0] = tile.is_first ? _mm512_setzero_ps() : _mm512_load_ps(tile.sums + row * kColumns);
    sums[row][1] = tile.is_first ? _mm512_setzero_ps() : _mm512_load_ps(tile.sums + row * kColumns + 16);
  }
  const std::byte* rows = tile.rows;
  const std::byte* columns = tile.columns;
  for (std::int64_t k = 0; k < tile.num_k; k += 2) {
    const auto first = reinterpret_cast<__m512bh>(_mm512_load_si512(columns));
    const auto second = reinterpret_cast<__m512bh>(_mm512_load_si512(columns + 64));
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      int pair = 0;
      std::memcpy(&pair, rows + row * sizeof(pair), sizeof(pair));
      const auto value = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
      sums[row][0] = _mm512_dpbf16_ps(sums[row][0], value, first);
      sums[row][1] = _mm512_dpbf16_ps(sums[row][1], value, second);
    }
    rows += kRows * sizeof(int);
    columns += kColumns * sizeof(int);
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    _mm512_store_ps(tile.sums + row * kColumns, sums[row][0]);
    _mm512_store_ps(tile.sums + row * kColumns + 16, sums[row][1]);
  }
}

}  // namespace

GemmKernel avx512_bf16_kernel() {
  return {.rows = kRows,
          .columns = kColumns,
          .k_step = 2,
          .panel_k = 512,
          .packed_bytes = 2,
          .max_local = 192,
          .max_shared = 512,
          .local_cost = 8,
          .shared_cost = 4,
          .pack_rows = pack_vector_panels<PackedWord::kPair, kRows>,
          .pack_columns = pack_vector_panels<PackedWord::kPair, kColumns>,
          .multiply = multiply,
          .write = write_avx512};
}

}  // namespace sluice::cpu
HWY_POP_ATTRIBUTES
