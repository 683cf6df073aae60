// SPDX-License-Identifier: Apache-2.0
// The kernel for AMX: 32 x 32 sums are four tile registers, and each step multiplies two row tiles with two column
// tiles of 32 bf16 in k. It is a template over what executes tile instructions, so that its packing and its order can
// be tested where there are none.
//
//   registers   sums    0 1      rows 4      columns 6 7
//                       2 3           5
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/base.h"
#include "ops/cpu/gemm_kernel.h"

namespace sluice::cpu {

// What ldtilecfg reads: eight registers of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t num_rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

inline constexpr std::int64_t kAmxSide = 32;   // of a tile of sums
inline constexpr std::int64_t kAmxStepK = 32;  // of one multiplication

}  // namespace sluice::cpu

HWY_PUSH_ATTRIBUTES("amx-tile,amx-bf16")
namespace sluice::cpu {

// A Unit has, for registers that are template arguments: zero<t>(), load<t>(from, stride_bytes),
// store<t>(to, stride_bytes), multiply<sums, rows, columns>(), and enter() and leave() around them.
template <typename Unit>
void multiply_tiles(const GemmTile& tile) {
  constexpr std::int64_t kTileBytes = 1024;
  constexpr std::int64_t kRowBytes = 64;
  constexpr std::int64_t kSumBytes = kAmxSide * std::int64_t{sizeof(float)};
  float* const right = tile.sums + kAmxSide / 2;
  float* const below = tile.sums + kAmxSide * kAmxSide / 2;
  if (tile.is_first) {
    Unit::template zero<0>();
    Unit::template zero<1>();
    Unit::template zero<2>();
    Unit::template zero<3>();
  } else {
    Unit::template load<0>(tile.sums, kSumBytes);
    Unit::template load<1>(right, kSumBytes);
    Unit::template load<2>(below, kSumBytes);
    Unit::template load<3>(below + kAmxSide / 2, kSumBytes);
  }
  const std::byte* rows = tile.rows;
  const std::byte* columns = tile.columns;
  std::int64_t line = 0;
  for (std::int64_t k = 0; k < tile.num_k; k += kAmxStepK) {
    // Loads first: measured faster than loads between products, with one thread on a core and with two.
    Unit::template load<4>(rows, kRowBytes);
    Unit::template load<5>(rows + kTileBytes, kRowBytes);
    Unit::template load<6>(columns, kRowBytes);
    Unit::template load<7>(columns + kTileBytes, kRowBytes);
    Unit::template multiply<0, 4, 6>();
    Unit::template multiply<1, 4, 7>();
    Unit::template multiply<2, 5, 6>();
    Unit::template multiply<3, 5, 7>();
    rows += 2 * kTileBytes;
    columns += 2 * kTileBytes;
    for (const GemmPrefetch& prefetch : tile.prefetch) {
      const std::byte* at = prefetch.first + line;
      for (std::int64_t row = 0; row < prefetch.num_rows; ++row, at += prefetch.stride_bytes) {
        __builtin_prefetch(at, 0, 2);
      }
    }
    line += kRowBytes;
  }
  Unit::template store<0>(tile.sums, kSumBytes);
  Unit::template store<1>(right, kSumBytes);
  Unit::template store<2>(below, kSumBytes);
  Unit::template store<3>(below + kAmxSide / 2, kSumBytes);
}

}  // namespace sluice::cpu
HWY_POP_ATTRIBUTES

namespace sluice::cpu {

// What any unit needs around it. Packing needs AVX-512.
GemmKernel amx_kernel_without_unit();

template <typename Unit>
GemmKernel amx_kernel_on() {
  GemmKernel kernel = amx_kernel_without_unit();
  kernel.multiply = multiply_tiles<Unit>;
  kernel.enter = Unit::enter;
  kernel.leave = Unit::leave;
  return kernel;
}

// Call only where GemmPath::kAmxBf16 is available.
GemmKernel amx_bf16_kernel();

}  // namespace sluice::cpu
