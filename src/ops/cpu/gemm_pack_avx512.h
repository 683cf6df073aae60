// SPDX-License-Identifier: Apache-2.0
// Packing for the kernels that need AVX-512 (F, BW, VL, DQ): call these only where the CPU has it. Panels are made of
// words of 32 bits, each one float or a pair of bf16 neighbours in k, 16 x 16 at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/gemm_kernel.h"

namespace sluice::cpu {

enum class PackedWord : std::uint8_t {
  kFloat,         // of f32
  kWidenedFloat,  // of bf16
  kPair,          // of two bf16
};

// Vector kernels: word w of row r stands at w * width + r. width is at most 32.
template <PackedWord kWord, int kWidth>
void pack_vector_panels(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k);

// Tiles: 16 rows by 16 words, dense; the two tiles of 32 rows and the same k are neighbours. In a row tile the words of
// a row are neighbours, in a column tile the words of one k.
void pack_row_tiles(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k);
void pack_column_tiles(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k);

// (32, 32) to its transpose.
void transpose_sums(float* to, const float* from);

// The widths that the vector kernels have.
inline constexpr int kAvx512Rows = 14;
inline constexpr int kAvx512Columns = 32;

}  // namespace sluice::cpu
