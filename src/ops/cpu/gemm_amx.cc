// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_amx.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "hwy/base.h"
#include "ops/cpu/square_avx512.h"

HWY_PUSH_ATTRIBUTES("amx-tile,amx-bf16,avx,avx2,fma,avx512f,avx512bw,avx512vl")
namespace sluice::cpu {
namespace {

// What ldtilecfg reads: eight registers of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t num_rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// The instructions as assembly: compilers' own intrinsics take register numbers as literals, not as template arguments.
struct TileRegisters {
  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  static void load(const void* from, std::int64_t stride_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride_bytes), "i"(kTile) : "memory");
  }
  template <int kTile>
  static void load_once(const void* from, std::int64_t stride_bytes) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride_bytes), "i"(kTile) : "memory");
  }
  template <int kTile>
  static void store(void* to, std::int64_t stride_bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride_bytes), "i"(kTile) : "memory");
  }
  template <int kSums, int kRows, int kColumns>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kColumns));
  }
  // In halves of vectors: whole ones would take the ports that tiles are multiplied on.
  static void add(float* to, const float* more) {
    for (int at = 0; at < 32; at += 8) _mm256_storeu_ps(to + at, sum(to + at, more + at));
  }
  static void add_total(float* to, const float* before, const float* sums) {
    for (int at = 0; at < 32; at += 8) {
      _mm256_storeu_ps(to + at, _mm256_add_ps(_mm256_loadu_ps(to + at), sum(before + at, sums + at)));
    }
  }
  // Sums are zero where they would be below the least normal number, as vcvtne2ps2bf16 would make them; all others it
  // rounds as to_bf16() does.
  static void narrow(std::byte* to, const float* sums, bool is_streamed) {
    put(to, narrowed(_mm512_loadu_ps(sums), _mm512_loadu_ps(sums + 16)), is_streamed);
  }
  static void narrow_total(std::byte* to, const float* before, const float* sums, bool is_streamed) {
    for (int at = 0; at < 32; at += 16, to += 32) {
      __m256i halves;
      asm("vcvtne2ps2bf16 %1, %2, %0"
          : "=v"(halves)
          : "v"(sum(before + at, sums + at)), "v"(sum(before + at + 8, sums + at + 8)));
      put(to, halves, is_streamed);
    }
  }
  static void copy_line(std::byte* to, const std::byte* from, bool is_streamed) {
    put(to, _mm512_load_si512(from), is_streamed);
  }
  // Words are pairs of rows.
  static void narrow_turned(std::byte* to, const float* sums, const float* before) {
    const __m512i pairs = _mm512_load_si512(kPairs);
    Square square;
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kSquareSide; ++i) {
      __m512 upper = _mm512_loadu_ps(sums + 2 * i * kAmxSide);
      __m512 lower = _mm512_loadu_ps(sums + (2 * i + 1) * kAmxSide);
      if (before != nullptr) {
        upper = _mm512_add_ps(_mm512_loadu_ps(before + 2 * i * kAmxSide), upper);
        lower = _mm512_add_ps(_mm512_loadu_ps(before + (2 * i + 1) * kAmxSide), lower);
      }
      square.line[i] = _mm512_permutexvar_epi16(pairs, narrowed(upper, lower));
    }
    transpose(square);
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kSquareSide; ++i) _mm512_store_si512(to + i * 64, square.line[i]);
  }
  // tdpbf16ps makes zero of what is below the least normal number; what is added up here does likewise.
  static std::uint32_t enter() {
    static constexpr TileConfig kConfig;
    asm volatile("ldtilecfg %0" : : "m"(kConfig));
    const std::uint32_t entered = _mm_getcsr();
    _mm_setcsr(entered | _MM_FLUSH_ZERO_ON);
    return entered;
  }
  static void leave(std::uint32_t entered) {
    _mm_sfence();  // for what was streamed
    _mm_setcsr(entered);
    asm volatile("tilerelease");
  }

 private:
  // Element i of two vectors of 16 becomes pair i.
  alignas(64) static constexpr std::uint16_t kPairs[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                           21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31};

  static void put(std::byte* to, __m512i line, bool is_streamed) {
    if (is_streamed) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
    } else {
      _mm512_storeu_si512(to, line);
    }
  }
  static void put(std::byte* to, __m256i half_line, bool is_streamed) {
    if (is_streamed) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), half_line);
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half_line);
    }
  }
  static __m512i narrowed(__m512 first, __m512 second) {
    __m512i halves;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(first), "v"(second));
    return halves;
  }
  static __m256 sum(const float* a, const float* b) { return _mm256_add_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(b)); }
};

}  // namespace
}  // namespace sluice::cpu
HWY_POP_ATTRIBUTES

namespace sluice::cpu {

TiledKernel amx_tiled_kernel() {
  static const std::int64_t kLastCacheBytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);  // -1 or 0 where it is not known
  TiledKernel kernel = tiled_kernel_on<TileRegisters>();
  // A quarter: operands come from there too, and others use it.
  kernel.max_sums_bytes = std::max(kernel.max_sums_bytes, kLastCacheBytes / 4);
  return kernel;
}

}  // namespace sluice::cpu
