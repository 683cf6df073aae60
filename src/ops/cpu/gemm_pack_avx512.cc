// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_pack_avx512.h"

#include <algorithm>

#include "hwy/base.h"
#include "ops/cpu/square_avx512.h"

HWY_PUSH_ATTRIBUTES("avx,avx2,fma,avx512f,avx512bw,avx512vl,avx512dq")
namespace sluice::cpu {
namespace {

constexpr std::int64_t kSide = kSquareSide;  // words of a vector

__mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>((1U << static_cast<unsigned>(std::clamp<std::int64_t>(count, 0, kSide))) - 1U);
}

__mmask32 first_halves(std::int64_t count) {
  return static_cast<__mmask32>((std::uint64_t{1} << static_cast<unsigned>(std::clamp<std::int64_t>(count, 0, 32))) -
                                1U);
}

// Sixteen words along k of one row. `there` are the elements that exist.
template <PackedWord kWord>
HWY_INLINE __m512i load_along_k(const std::byte* from, __mmask32 there) {
  if constexpr (kWord == PackedWord::kPair) return _mm512_maskz_loadu_epi16(there, from);
  const auto lanes = static_cast<__mmask16>(there);
  if constexpr (kWord == PackedWord::kFloat) return _mm512_maskz_loadu_epi32(lanes, from);
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from)), 16);
}

// One word of sixteen rows, which are neighbours in memory. num_k may be 1 for a pair.
template <PackedWord kWord>
HWY_INLINE __m512i load_along_rows(const std::byte* from, std::int64_t k_bytes, __mmask16 rows, std::int64_t num_k) {
  if (num_k <= 0) return _mm512_setzero_si512();
  if constexpr (kWord == PackedWord::kFloat) return _mm512_maskz_loadu_epi32(rows, from);
  const __m512i first = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(rows, from));
  if constexpr (kWord == PackedWord::kWidenedFloat) return _mm512_slli_epi32(first, 16);
  if (num_k < 2) return first;
  const __m512i second = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(rows, from + k_bytes));
  return _mm512_or_si512(first, _mm512_slli_epi32(second, 16));
}

// The square at `from`, where k is along: line i holds words of row i.
template <PackedWord kWord>
HWY_INLINE Square load_rows(const std::byte* from, std::int64_t row_bytes, std::int64_t num_rows, std::int64_t num_k) {
  const __mmask32 there = first_halves(kWord == PackedWord::kPair ? num_k : std::min(num_k, kSide));
  Square square;
  if (num_rows >= kSide) {
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kSide; ++i) square.line[i] = load_along_k<kWord>(from + i * row_bytes, there);
  } else {
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kSide; ++i) {
      square.line[i] = i < num_rows ? load_along_k<kWord>(from + i * row_bytes, there) : _mm512_setzero_si512();
    }
  }
  return square;
}

// The square at `from`, where rows are along: line i holds word i of all rows.
template <PackedWord kWord>
HWY_INLINE Square load_words(const std::byte* from, std::int64_t k_bytes, std::int64_t num_rows, std::int64_t num_k) {
  constexpr std::int64_t kPerWord = kWord == PackedWord::kPair ? 2 : 1;
  const __mmask16 rows = first_lanes(num_rows);
  Square square;
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kSide; ++i) {
    square.line[i] = load_along_rows<kWord>(from + i * kPerWord * k_bytes, k_bytes, rows, num_k - i * kPerWord);
  }
  return square;
}

HWY_INLINE void store_tile(std::byte* to, const Square& square) {
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kSide; ++i) _mm512_store_si512(to + i * 64, square.line[i]);
}

enum class Lines : std::uint8_t { kOfRow, kOfWord };  // what a line of a tile holds: a row's words, or a word's rows

constexpr std::int64_t kTileK = 2 * kSide;
constexpr std::int64_t kTileBytes = kSide * 64;

constexpr std::int64_t kPanelRows = 2 * kSide;

std::int64_t panel_bytes(std::int64_t num_k) { return (num_k + kTileK - 1) / kTileK * 2 * kTileBytes; }

// Sources are read in runs as long as can be: what stands side by side in a panel is often a multiple of 4 KiB apart in
// the source, and a cache keeps few such lines.

// How many rows of the source ahead are fetched: runs are too short for the CPU to foresee the next, and with more than
// these fetches get into one another's way.
constexpr std::int64_t kRowsAhead = 2;

// One row to lines that are `stride` apart.
HWY_INLINE void copy_row(std::byte* to, std::int64_t stride, const std::byte* from, std::int64_t num_k,
                         std::int64_t ahead_bytes) {
  for (std::int64_t tile = 0; tile < num_k / kTileK; ++tile, to += stride, from += 64) {
    __builtin_prefetch(from + ahead_bytes);
    _mm512_store_si512(to, _mm512_loadu_si512(from));
  }
  if (num_k % kTileK != 0) _mm512_store_si512(to, _mm512_maskz_loadu_epi16(first_halves(num_k % kTileK), from));
}

void copy_rows(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  const std::int64_t ahead = kRowsAhead * from.row_stride * from.element_bytes;
  for (std::int64_t row = 0; row < num_rows || row % kPanelRows != 0; ++row) {
    std::byte* const line = to + row / kPanelRows * panel_bytes(num_k) + row % kPanelRows * 64;
    if (row < num_rows) {
      copy_row(line, 2 * kTileBytes, from.at(row, 0), num_k, ahead);
    } else {
      for (std::int64_t k = 0; k < num_k; k += kTileK) {
        _mm512_store_si512(line + k / kTileK * 2 * kTileBytes, _mm512_setzero_si512());
      }
    }
  }
}

HWY_INLINE void transpose_tile(std::byte* tile) {
  Square square;
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kSide; ++i) square.line[i] = _mm512_load_si512(tile + i * 64);
  transpose(square);
  store_tile(tile, square);
}

// Each row is a run of its own here. The CPU foresees them better than fetches in a loop could.
void turn_rows(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  const std::int64_t row_bytes = from.row_stride * from.element_bytes;
  for (std::int64_t first = 0; first < num_rows; first += kPanelRows) {
    for (std::int64_t k = 0; k < num_k; k += kTileK) {
      for (std::int64_t row = first; row < first + kPanelRows; row += kSide, to += kTileBytes) {
        Square square = load_rows<PackedWord::kPair>(from.at(row, k), row_bytes, num_rows - row, num_k - k);
        transpose(square);
        store_tile(to, square);
      }
    }
  }
}

// Element i of two rows of 32 becomes pair i.
alignas(64) constexpr std::uint16_t kLeftPairs[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                      8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
alignas(64) constexpr std::uint16_t kRightPairs[32] = {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                                       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};

template <Lines kLines>
void pair_words(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  const __m512i left = _mm512_load_si512(kLeftPairs);
  const __m512i right = _mm512_load_si512(kRightPairs);
  const std::int64_t k_bytes = from.k_stride * from.element_bytes;
  for (std::int64_t k = 0; k < num_k; k += kTileK, to += 2 * kTileBytes) {
    for (std::int64_t i = 0; i < kSide; ++i) {
      const std::int64_t rest = num_k - k - 2 * i;
      const std::byte* line = from.at(0, k + 2 * i);
      std::byte* tile = to + i * 64;
      for (std::int64_t row = 0; row < num_rows; row += kPanelRows, line += 64, tile += panel_bytes(num_k)) {
        const __mmask32 rows = first_halves(num_rows - row);
        __builtin_prefetch(line + kRowsAhead * k_bytes);
        __builtin_prefetch(line + (kRowsAhead + 1) * k_bytes);
        const __m512i first = _mm512_maskz_loadu_epi16(rest > 0 ? rows : __mmask32{0}, line);
        const __m512i second = _mm512_maskz_loadu_epi16(rest > 1 ? rows : __mmask32{0}, line + k_bytes);
        _mm512_store_si512(tile, _mm512_permutex2var_epi16(first, left, second));
        _mm512_store_si512(tile + kTileBytes, _mm512_permutex2var_epi16(first, right, second));
      }
    }
    if constexpr (kLines == Lines::kOfRow) {
      std::byte* tile = to;
      for (std::int64_t row = 0; row < num_rows; row += kPanelRows, tile += panel_bytes(num_k)) {
        transpose_tile(tile);
        transpose_tile(tile + kTileBytes);
      }
    }
  }
}

}  // namespace

template <PackedWord kWord, int kWidth>
void pack_vector_panels(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  constexpr std::int64_t kPerWord = kWord == PackedWord::kPair ? 2 : 1;
  constexpr std::int64_t kLineBytes = kWidth * std::int64_t{4};
  const std::int64_t num_words = (num_k + kPerWord - 1) / kPerWord;
  for (std::int64_t first = 0; first < num_rows; first += kWidth, to += num_words * kLineBytes) {
    for (std::int64_t word = 0; word < num_words; word += kSide) {
      const std::int64_t num_lines = std::min(kSide, num_words - word);
      for (std::int64_t row = 0; row < kWidth; row += kSide) {
        const std::int64_t k = word * kPerWord;
        const std::int64_t rest = std::min<std::int64_t>(kWidth, num_rows - first) - row;
        const std::byte* const source = from.at(first + row, k);
        Square square;
        if (from.k_stride == 1) {
          square = load_rows<kWord>(source, from.row_stride * from.element_bytes, rest, num_k - k);
          transpose(square);
        } else {
          square = load_words<kWord>(source, from.k_stride * from.element_bytes, rest, num_k - k);
        }
        const __mmask16 lanes = first_lanes(kWidth - row);
        std::byte* const corner = to + word * kLineBytes + row * 4;
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < kSide; ++i) {
          if (i < num_lines) _mm512_mask_storeu_epi32(corner + i * kLineBytes, lanes, square.line[i]);
        }
      }
    }
  }
}

#define SLUICE_PACK(word, width) \
  template void pack_vector_panels<PackedWord::word, width>(std::byte*, const GemmSource&, std::int64_t, std::int64_t)
SLUICE_PACK(kFloat, kAvx512Rows);
SLUICE_PACK(kFloat, kAvx512Columns);
SLUICE_PACK(kWidenedFloat, kAvx512Rows);
SLUICE_PACK(kWidenedFloat, kAvx512Columns);
SLUICE_PACK(kPair, kAvx512Rows);
SLUICE_PACK(kPair, kAvx512Columns);
#undef SLUICE_PACK

void pack_row_tiles(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  (from.k_stride == 1 ? copy_rows : pair_words<Lines::kOfRow>)(to, from, num_rows, num_k);
}

void pack_column_tiles(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) {
  (from.k_stride == 1 ? turn_rows : pair_words<Lines::kOfWord>)(to, from, num_rows, num_k);
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
