// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "base/bf16.h"
#include "ops/cpu/items.h"
#include "ops/cpu/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/int8_rows.cc"  // NOLINT
#include "hwy/foreach_target.h"                    // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/block_codes-inl.h"
#include "ops/cpu/lane_table-inl.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

template <typename T>
float quantize_row(const T* from, std::size_t count, std::int8_t* codes) {
  const F32Tag d;
  const I32Tag di;
  const hn::Rebind<std::int8_t, F32Tag> d8;
  I32 bits = hn::Zero(di);  // as in absmax_of()
  over_lanes(0, count, [&](std::size_t at, auto part) SLUICE_LANES {
    bits = hn::Max(bits, hn::BitCast(di, hn::Abs(part.load(d, from + at))));
  });
  const float absmax = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, bits)));
  const Normaliser normaliser = normaliser_of(absmax);
  const F32 first = hn::Set(d, normaliser.first);
  const F32 second = hn::Set(d, normaliser.second * 127);
  HWY_ALIGN std::int8_t lanes[HWY_MAX_BYTES / sizeof(float)];
  over_lanes(0, count, [&](std::size_t at, auto part) SLUICE_LANES {
    const I32 code = hn::NearestInt(hn::Mul(hn::Mul(part.load(d, from + at), first), second));
    const I32 within = hn::Max(hn::Min(code, hn::Set(di, 127)), hn::Set(di, -127));
    hn::StoreU(hn::DemoteTo(d8, within), d8, lanes);
    std::copy_n(lanes, std::min(hn::Lanes(d), count - at), codes + at);
  });
  return absmax;
}

template <typename T>
void dequantize_row(const std::int8_t* codes, float absmax, T* to, std::size_t count) {
  const F32Tag d;
  const I32Tag di;
  const hn::Rebind<std::int8_t, F32Tag> d8;
  const F32 scale = hn::Set(d, absmax / 127);
  HWY_ALIGN std::int8_t lanes[HWY_MAX_BYTES / sizeof(float)] = {};
  over_lanes(0, count, [&](std::size_t at, auto part) SLUICE_LANES {
    std::copy_n(codes + at, std::min(hn::Lanes(d), count - at), lanes);
    const F32 code = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, lanes)));
    part.store(d, hn::Mul(code, scale), to + at);
  });
}

void quantize_rows(const Int8Rows& to, const TensorView& from, std::int64_t first, std::int64_t end) {
  const std::int64_t num_cols = from.shape()[1];
  for (std::int64_t row = first; row < end; ++row) {
    const std::int64_t at = row * num_cols;
    const auto count = static_cast<std::size_t>(num_cols);
    std::int8_t* const codes = to.codes.as<std::int8_t>().data() + at;
    to.absmax.as<float>()[row] = from.dtype() == DType::kF32 ? quantize_row(from.as<float>().data() + at, count, codes)
                                                             : quantize_row(from.as<BF16>().data() + at, count, codes);
  }
}

void dequantize_rows(const TensorView& to, const Int8Rows& from, std::int64_t first, std::int64_t end) {
  const std::int64_t num_cols = to.shape()[1];
  for (std::int64_t row = first; row < end; ++row) {
    const std::int64_t at = row * num_cols;
    const auto count = static_cast<std::size_t>(num_cols);
    const std::int8_t* const codes = from.codes.as<std::int8_t>().data() + at;
    const float absmax = from.absmax.as<float>()[row];
    to.dtype() == DType::kF32 ? dequantize_row(codes, absmax, to.as<float>().data() + at, count)
                              : dequantize_row(codes, absmax, to.as<BF16>().data() + at, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(quantize_rows);
HWY_EXPORT(dequantize_rows);

constexpr std::int64_t kItemRows = 8;

}  // namespace

void quantize_int8(WorkerTeam& team, const Int8Rows& to, const TensorView& from) {
  over_items(team, from.shape()[0], kItemRows, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(quantize_rows)(to, from, first, first + count);
  });
}

void dequantize_int8(WorkerTeam& team, const TensorView& to, const Int8Rows& from) {
  over_items(team, to.shape()[0], kItemRows, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(dequantize_rows)(to, from, first, first + count);
  });
}

}  // namespace sluice::cpu
#endif
