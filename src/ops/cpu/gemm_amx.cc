// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_amx.h"

#include <unistd.h>

// gcc 12 takes the undefined vectors inside its own intrinsics for mistakes (gcc bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "hwy/base.h"

HWY_PUSH_ATTRIBUTES("amx-tile,amx-bf16,avx512f")
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
  // Sums of tdpbf16ps are zero where they would be below the least normal number, as vcvtne2ps2bf16 would make them;
  // all others it rounds as to_bf16() does.
  static void narrow(std::byte* to, const float* sums) {
    __m512i halves;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(_mm512_loadu_ps(sums)), "v"(_mm512_loadu_ps(sums + 16)));
    _mm512_storeu_si512(to, halves);
  }
  static void enter() {
    static constexpr TileConfig kConfig;
    asm volatile("ldtilecfg %0" : : "m"(kConfig));
  }
  static void leave() { asm volatile("tilerelease"); }
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
