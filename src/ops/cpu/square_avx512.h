// SPDX-License-Identifier: Apache-2.0
// 16 x 16 words of 32 bits in registers, and their transpose, where the CPU has AVX-512 (F).
#pragma once

// gcc 12 takes the undefined vectors inside its own intrinsics for mistakes (gcc bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cstdint>

#include "hwy/base.h"

HWY_PUSH_ATTRIBUTES("avx,avx2,fma,avx512f")
namespace sluice::cpu {

inline constexpr std::int64_t kSquareSide = 16;

struct Square {
  __m512i line[kSquareSide];
};

// Four rounds, each of which exchanges squares of half the side: of 8 x 8 words, 4 x 4, 2 x 2, then single words.
HWY_INLINE void transpose(Square& square) {
  __m512i a[kSquareSide];
#pragma GCC unroll 16
  for (int i = 0; i < 8; ++i) {
    const __m512i upper = square.line[2 * i];
    const __m512i lower = square.line[2 * i + 1];
    a[2 * i] = _mm512_unpacklo_epi32(upper, lower);
    a[2 * i + 1] = _mm512_unpackhi_epi32(upper, lower);
  }
  __m512i b[kSquareSide];
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

}  // namespace sluice::cpu
HWY_POP_ATTRIBUTES
