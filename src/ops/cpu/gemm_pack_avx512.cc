// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_pack_avx512.h"

// gcc 12 takes the undefined vectors inside its own intrinsics for mistakes (gcc bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>

#include "hwy/base.h"

HWY_PUSH_ATTRIBUTES("avx,avx2,fma,avx512f,avx512bw,avx512vl,avx512dq")
namespace sluice::cpu {
namespace {

constexpr std::int64_t kSide = 16;  // words of a vector

struct Square {
  __m512i line[kSide];
};

__mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>((1U << static_cast<unsigned>(std::clamp<std::int64_t>(count, 0, kSide))) - 1U);
}

__mmask32 first_halves(std::int64_t count) {
  return static_cast<__mmask32>((std::uint64_t{1} << static_cast<unsigned>(std::clamp<std::int64_t>(count, 0, 32))) -
                                1U);
}

// Four rounds, each of which exchanges squares of half the side: of 8 x 8 words, 4 x 4, 2 x 2, then single words.
inline void transpose(Square& square) {
  __m512i a[kSide];
#pragma GCC unroll 16
  for (int i = 0; i < 8; ++i) {
    const __m512i upper = square.line[2 * i];
    const __m512i lower = square.line[2 * i + 1];
    a[2 * i] = _mm512_unpacklo_epi32(upper, lower);
    a[2 * i + 1] = _mm512_unpackhi_epi32(upper, lower);
  }
  __m512i b[kSide];
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    b[4 * i] = _mm512_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
    b[4 * i + 1] = _mm512_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
    b[4 * i + 2] = _mm512_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
    b[4 * i + 3] = _mm512_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
  }
  // b[4 i + j] now holds, in its quarter q, column 4 q + j of rows 4 i to 4 i + 3: quarters are all that is left to
  // move.
#pragma GCC unroll 16
  for (int j = 0; j < 4; ++j) {
    const __m512i low_even = _mm512_shuffle_i32x4(b[j], b[4 + j], 0x88);        // quarters 0, 2 of rows 0 to 7
    const __m512i low_odd = _mm512_shuffle_i32x4(b[j], b[4 + j], 0xDD);         // quarters 1, 3
    const __m512i high_even = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0x88);  // of rows 8 to 15
    const __m512i high_odd = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0xDD);
    square.line[j] = _mm512_shuffle_i32x4(low_even, high_even, 0x88);
    square.line[8 + j] = _mm512_shuffle_i32x4(low_even, high_even, 0xDD);
    square.line[4 + j] = _mm512_shuffle_i32x4(low_odd, high_odd, 0x88);
    square.line[12 + j] = _mm512_shuffle_i32x4(low_odd, high_odd, 0xDD);
  }
}

// Sixteen words along k of one row; num_k is what there is from here.
template <PackedWord kWord>
inline __m512i load_along_k(const std::byte* from, std::int64_t num_k) {
  if constexpr (kWord == PackedWord::kPair) return _mm512_maskz_loadu_epi16(first_halves(num_k), from);
  const __mmask16 lanes = first_lanes(num_k);
  if constexpr (kWord == PackedWord::kFloat) return _mm512_maskz_loadu_epi32(lanes, from);
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from)), 16);
}

// One word of sixteen rows, which are neighbours in memory. num_k may be 1 for a pair.
template <PackedWord kWord>
inline __m512i load_along_rows(const std::byte* from, std::int64_t k_bytes, __mmask16 rows, std::int64_t num_k) {
  if (num_k <= 0) return _mm512_setzero_si512();
  if constexpr (kWord == PackedWord::kFloat) return _mm512_maskz_loadu_epi32(rows, from);
  const __m512i first = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(rows, from));
  if constexpr (kWord == PackedWord::kWidenedFloat) return _mm512_slli_epi32(first, 16);
  if (num_k < 2) return first;
  const __m512i second = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(rows, from + k_bytes));
  return _mm512_or_si512(first, _mm512_slli_epi32(second, 16));
}

enum class Lines : std::uint8_t { kOfRow, kOfWord };  // what a line of a square holds: a row's words, or a word's rows

// The square at (row, k), of which num_rows and num_k are there; the rest is zero.
template <PackedWord kWord, Lines kLines>
inline Square load_square(const GemmSource& from, std::int64_t row, std::int64_t k, std::int64_t num_rows,
                          std::int64_t num_k) {
  constexpr std::int64_t kPerWord = kWord == PackedWord::kPair ? 2 : 1;
  Square square;
  if (from.k_stride == 1) {
    const std::byte* const first = from.at(row, k);
    const std::int64_t stride = from.row_stride * from.element_bytes;
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kSide; ++i) {
      square.line[i] = i < num_rows ? load_along_k<kWord>(first + i * stride, num_k) : _mm512_setzero_si512();
    }
    if constexpr (kLines == Lines::kOfWord) transpose(square);
  } else {
    const std::byte* const first = from.at(row, k);
    const std::int64_t stride = from.k_stride * from.element_bytes;
    const __mmask16 rows = first_lanes(num_rows);
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kSide; ++i) {
      square.line[i] = load_along_rows<kWord>(first + i * kPerWord * stride, stride, rows, num_k - i * kPerWord);
    }
    if constexpr (kLines == Lines::kOfRow) transpose(square);
  }
  return square;
}

template <Lines kLines>
void pack_tiles(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  constexpr std::int64_t kTileK = 2 * kSide;
  for (std::int64_t k = 0; k < num_k; k += kTileK) {
    for (std::int64_t row = 0; row < 2 * kSide; row += kSide) {
      const Square square = load_square<PackedWord::kPair, kLines>(from, row, k, num_rows - row, num_k - k);
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kSide; ++i) _mm512_store_si512(to + i * 64, square.line[i]);
      to += kSide * 64;
    }
  }
}

}  // namespace

template <PackedWord kWord, int kWidth>
void pack_vector_panel(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  constexpr std::int64_t kPerWord = kWord == PackedWord::kPair ? 2 : 1;
  constexpr std::int64_t kLineBytes = kWidth * std::int64_t{4};
  const std::int64_t num_words = (num_k + kPerWord - 1) / kPerWord;
  for (std::int64_t word = 0; word < num_words; word += kSide) {
    const std::int64_t num_lines = std::min(kSide, num_words - word);
    for (std::int64_t row = 0; row < kWidth; row += kSide) {
      const std::int64_t k = word * kPerWord;
      const Square square = load_square<kWord, Lines::kOfWord>(from, row, k, num_rows - row, num_k - k);
      const __mmask16 lanes = first_lanes(kWidth - row);
      std::byte* const corner = to + word * kLineBytes + row * 4;
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kSide; ++i) {
        if (i < num_lines) _mm512_mask_storeu_epi32(corner + i * kLineBytes, lanes, square.line[i]);
      }
    }
  }
}

#define SLUICE_PACK(word, width) \
  template void pack_vector_panel<PackedWord::word, width>(std::byte*, const GemmSource&, std::int64_t, std::int64_t)
SLUICE_PACK(kFloat, kAvx512Rows);
SLUICE_PACK(kFloat, kAvx512Columns);
SLUICE_PACK(kWidenedFloat, kAvx512Rows);
SLUICE_PACK(kWidenedFloat, kAvx512Columns);
SLUICE_PACK(kPair, kAvx512Rows);
SLUICE_PACK(kPair, kAvx512Columns);
#undef SLUICE_PACK

void pack_row_tiles(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  pack_tiles<Lines::kOfRow>(to, from, num_rows, num_k);
}

void pack_column_tiles(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  pack_tiles<Lines::kOfWord>(to, from, num_rows, num_k);
}

void transpose_sums(float* to, const float* from) {
  constexpr std::int64_t kTileSide = 32;
  for (std::int64_t row = 0; row < kTileSide; row += kSide) {
    for (std::int64_t column = 0; column < kTileSide; column += kSide) {
      Square square;
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kSide; ++i) {
        square.line[i] = _mm512_load_si512(from + (row + i) * kTileSide + column);
      }
      transpose(square);
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kSide; ++i) {
        _mm512_store_si512(to + (column + i) * kTileSide + row, square.line[i]);
      }
    }
  }
}

}  // namespace sluice::cpu
HWY_POP_ATTRIBUTES
