// SPDX-License-Identifier: Apache-2.0
// What becomes of a tile of sums after its last step (gemm_tiled_kernel.h): it is stored, added to those of the panels
// before, and written to C, as far as can be a row or two beside each step of the next tile. For the CPU looks ahead
// about one step: whatever it does between two tiles, it does while none is multiplied.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bf16.h"
#include "hwy/base.h"
#include "ops/cpu/gemm_kernel.h"
#include "ops/cpu/gemm_pack_avx512.h"
#include "ops/cpu/gemm_write_avx512.h"

namespace sluice::cpu {

inline constexpr std::int64_t kAmxSide = 32;  // of a tile of sums

// A tile whose sums are still in the registers: where they go, and what else is to be done with them.
struct TilePending {
  float* sums = nullptr;               // (32, 32), where the registers go; none: nothing is pending
  float* before = nullptr;             // of the panels before, as large: they are added to these; none: there are none
  const GemmOutput* output = nullptr;  // where all are added up they go to C; none: more panels follow
  GemmPlace place = {};                // in C
  bool is_streamed = false;            // past the caches
  float* turned = nullptr;             // as large: C has them transposed, and here is room for that
};

}  // namespace sluice::cpu

HWY_PUSH_ATTRIBUTES("amx-tile,amx-bf16,avx,avx2,fma,avx512f,avx512bw,avx512vl")
namespace sluice::cpu {

inline constexpr std::int64_t kSumRowBytes = kAmxSide * std::int64_t{sizeof(float)};

// What is left to do with a tile that has been stored.
enum class RestOf : std::uint8_t {
  kNothing,
  kAdd,          // sums are added to what is there: those of the panels before, or C
  kAddTotal,     // sums and those of the panels before are added to what is there
  kNarrow,       // sums are rounded
  kNarrowTotal,  // sums and those of the panels before are added up and rounded
  kTurn,         // as these two, and transposed beside the first steps; the rows of that go to C beside the others
  kWrite,        // all else that C may want, at once
};

struct TileRest {
  const float* sums = nullptr;
  const float* before = nullptr;
  std::byte* to = nullptr;
  std::int64_t row_bytes = 0;  // there
  std::int64_t num_rows = 0;
  std::int64_t tile_bytes = 0;  // from there to where the next tile of the strip goes
  std::byte* turned = nullptr;
  bool is_streamed = false;
};

inline RestOf kind_of(const TilePending& pending) {
  if (pending.sums == nullptr) return RestOf::kNothing;
  const bool is_total = pending.before != nullptr;
  if (pending.output == nullptr) return is_total ? RestOf::kAdd : RestOf::kNothing;
  const GemmOutput& output = *pending.output;
  if (output.bias != nullptr || pending.place.num_n < kAmxSide) return RestOf::kWrite;
  const bool is_turned = pending.turned != nullptr;
  if (output.c_dtype == DType::kBF16 && output.into == Into::kOverwrite) {
    if (is_turned) return RestOf::kTurn;
    return is_total ? RestOf::kNarrowTotal : RestOf::kNarrow;
  }
  if (output.c_dtype == DType::kF32 && output.into == Into::kAdd && !is_turned) {
    return is_total ? RestOf::kAddTotal : RestOf::kAdd;
  }
  return RestOf::kWrite;
}

inline TileRest rest_of(const TilePending& pending) {
  if (pending.output == nullptr) {
    return {.sums = pending.sums,
            .to = reinterpret_cast<std::byte*>(pending.before),
            .row_bytes = kSumRowBytes,
            .num_rows = kAmxSide,
            .tile_bytes = kAmxSide * kSumRowBytes};
  }
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(pending.output->c_dtype));
  const std::int64_t row_bytes = pending.output->num_columns * element_bytes;
  return {.sums = pending.sums,
          .before = pending.before,
          .to = pending.output->c + pending.place.m * row_bytes + pending.place.n * element_bytes,
          .row_bytes = row_bytes,
          .num_rows = pending.place.num_m,
          .tile_bytes = kAmxSide * (pending.turned != nullptr ? row_bytes : element_bytes),
          .turned = reinterpret_cast<std::byte*>(pending.turned),
          .is_streamed = pending.is_streamed};
}

inline constexpr std::int64_t kTurnedBytes = kAmxSide * std::int64_t{sizeof(BF16)};  // a row
inline constexpr std::int64_t kTurns = 2;

// 16 of 32 columns.
template <typename Unit>
HWY_INLINE void turn(const TileRest& rest, std::int64_t idx) {
  const std::int64_t row = idx * kAmxSide / kTurns;
  Unit::narrow_turned(rest.turned + row * kTurnedBytes, rest.sums + row,
                      rest.before == nullptr ? nullptr : rest.before + row);
}

template <typename Unit, RestOf kKind>
HWY_INLINE void finish_row(const TileRest& rest, std::int64_t row) {
  std::byte* const to = rest.to + row * rest.row_bytes;
  const float* const sums = rest.sums + row * kAmxSide;
  if constexpr (kKind == RestOf::kAdd) Unit::add(reinterpret_cast<float*>(to), sums);
  if constexpr (kKind == RestOf::kNarrow) Unit::narrow(to, sums, rest.is_streamed);
  if constexpr (kKind == RestOf::kTurn) Unit::copy_line(to, rest.turned + row * kTurnedBytes, rest.is_streamed);
  if constexpr (kKind == RestOf::kAddTotal || kKind == RestOf::kNarrowTotal) {
    const float* const before = rest.before + row * kAmxSide;
    if constexpr (kKind == RestOf::kAddTotal) Unit::add_total(reinterpret_cast<float*>(to), before, sums);
    if constexpr (kKind == RestOf::kNarrowTotal) Unit::narrow_total(to, before, sums, rest.is_streamed);
  }
}

// Rows of a tile that are finished beside each step of the next but the first, so that next to none are left after the
// last. As many each time: what changes from step to step is foreseen wrong.
template <RestOf kKind>
HWY_INLINE std::int64_t rows_beside_step(std::int64_t num_steps) {
  if constexpr (kKind == RestOf::kTurn) {
    const std::int64_t num_left = std::max<std::int64_t>(num_steps - 1 - kTurns, 1);
    return (kAmxSide + num_left - 1) / num_left;
  }
  return std::max<std::int64_t>(kAmxSide / num_steps, 1);
}

template <typename Unit>
void write_tile(const TilePending& pending) {
  const float* sums = pending.sums;
  if (pending.before != nullptr) {
    for (std::int64_t at = 0; at < kAmxSide * kAmxSide; at += kAmxSide) Unit::add(pending.before + at, sums + at);
    sums = pending.before;
  }
  if (pending.turned != nullptr) {
    transpose_sums(pending.turned, sums);
    sums = pending.turned;
  }
  write_avx512(*pending.output, pending.place, sums, kAmxSide);
}

// Calls with the kind as a constant: asked beside each step it would be foreseen wrong.
template <typename Call>
HWY_INLINE void with_kind(RestOf kind, const Call& call) {
  switch (kind) {
    case RestOf::kNothing:
      return call.template operator()<RestOf::kNothing>();
    case RestOf::kAdd:
      return call.template operator()<RestOf::kAdd>();
    case RestOf::kAddTotal:
      return call.template operator()<RestOf::kAddTotal>();
    case RestOf::kNarrow:
      return call.template operator()<RestOf::kNarrow>();
    case RestOf::kNarrowTotal:
      return call.template operator()<RestOf::kNarrowTotal>();
    case RestOf::kTurn:
      return call.template operator()<RestOf::kTurn>();
    case RestOf::kWrite:
      return call.template operator()<RestOf::kWrite>();
  }
}

template <typename Unit, int kSums>
HWY_INLINE void store_sums(float* to) {
  constexpr std::int64_t kRight = kAmxSide / 2;
  constexpr std::int64_t kBelow = kAmxSide * kAmxSide / 2;
  if (to == nullptr) return;
  Unit::template store<kSums>(to + (kSums & 1) * kRight + (kSums >> 1) * kBelow, kSumRowBytes);
}

template <typename Unit>
void finish_tile(TilePending& pending) {
  store_sums<Unit, 0>(pending.sums);
  store_sums<Unit, 1>(pending.sums);
  store_sums<Unit, 2>(pending.sums);
  store_sums<Unit, 3>(pending.sums);
  with_kind(kind_of(pending), [&]<RestOf kKind>() {
    if constexpr (kKind == RestOf::kWrite) {
      write_tile<Unit>(pending);
    } else if constexpr (kKind != RestOf::kNothing) {
      const TileRest rest = rest_of(pending);
      for (std::int64_t idx = 0; kKind == RestOf::kTurn && idx < kTurns; ++idx) turn<Unit>(rest, idx);
      for (std::int64_t row = 0; row < rest.num_rows; ++row) finish_row<Unit, kKind>(rest, row);
    }
  });
  pending = {};
}

}  // namespace sluice::cpu
HWY_POP_ATTRIBUTES
