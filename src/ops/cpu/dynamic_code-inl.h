// SPDX-License-Identifier: Apache-2.0
// Vectors of the numbers in ops/dynamic_map.h, from codes and to the nearest code, without a table of 256: the code's
// place as a float has the decade in its exponent. Include as simd-inl.h is included.
#if defined(SLUICE_OPS_CPU_DYNAMIC_CODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_DYNAMIC_CODE_INL_H_
#undef SLUICE_OPS_CPU_DYNAMIC_CODE_INL_H_
#else
#define SLUICE_OPS_CPU_DYNAMIC_CODE_INL_H_  // NOLINT
#endif

#include <array>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "ops/cpu/lane_table-inl.h"
#include "ops/cpu/simd-inl.h"
#include "ops/dynamic_encoding.h"
#include "ops/dynamic_map.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

template <CodeRange kRange>
class DynamicCode {
 public:
  HWY_INLINE DynamicCode()
      : units_(by_exponent(dynamic_units(kRange).of_decade)),
        starts_(kEncoding.starts),
        scales_(kEncoding.scales),
        places_(kEncoding.places),
        last_places_(kEncoding.last_places) {}

  // dynamic_map()[code] * factor, rounded once each.
  HWY_INLINE F32 decode(F32Tag d, I32 code, F32 factor) const {
    const I32Tag di;
    const F32 as_float = hn::ConvertTo(d, hn::Sub(code, hn::Set(di, kIsSigned ? kSignedZeroCode : -1)));
    const F32 place = kIsSigned ? hn::Abs(as_float) : as_float;
    const I32 bits = hn::BitCast(di, place);
    const F32 buckets = hn::BitCast(d, hn::And(bits, hn::Set(di, 0x7F800000)));
    // Whole numbers, so no rounding: 18 place - 16 buckets + 9.
    const F32 odd = hn::MulAdd(place, hn::Set(d, 18.0F), hn::MulAdd(buckets, hn::Set(d, -16.0F), hn::Set(d, 9.0F)));
    const F32 magnitude = hn::Mul(odd, units_(d, hn::ShiftRight<23>(bits)));
    if constexpr (kIsSigned) {
      const F32 sign = hn::Min(hn::Max(as_float, hn::Set(d, -1.0F)), hn::Set(d, 1.0F));  // 0 of 0
      return hn::Mul(hn::Mul(magnitude, sign), factor);
    } else {
      return hn::Mul(magnitude, factor);
    }
  }

  // The code of the value nearest to x, within the rounding of floats, in the lowest byte of each lane; of what is
  // beyond an end, the code at the end; of NaN, some code. Unsigned, the code of 0 is for lanes alone that are not more
  // than 0.
  HWY_INLINE I32 encode(F32Tag d, F32 x, hn::Mask<F32Tag> is_more) const {
    const I32Tag di;
    const F32 magnitude =
        hn::Max(kIsSigned ? hn::Abs(x) : x, hn::Set(d, kIsSigned ? kBelowAllDecades : kEncoding.starts[0]));
    // Exponent and fraction, read as one number, are a log2 that is 0.09 too small at most. With that put right, they
    // name the decade of x, or the one above it where x is short of its start. Less a half, so that rounding to nearest
    // rounds down; beyond 2^23 floats have no bits after the point, and the whole number is in their lowest bits.
    const F32 log2 = hn::ConvertTo(d, hn::BitCast(di, magnitude));
    const F32 log10 = hn::MulAdd(log2, hn::Set(d, kLog10Of2 * 0x1p-23F), hn::Set(d, 6.53F - 127 * kLog10Of2));
    const I32 named = hn::BitCast(di, hn::Add(log10, hn::Set(d, 0x1.8p23F)));
    const auto is_short = hn::RebindMask(di, hn::Lt(magnitude, starts_(d, named)));
    const I32 decade = hn::Sub(named, hn::IfThenElseZero(is_short, hn::Set(di, 1)));
    const F32 place = hn::Min(hn::MulAdd(magnitude, scales_(d, decade), places_(d, decade)), last_places_(d, decade));
    if constexpr (kIsSigned) {
      const F32 offset = hn::Max(hn::CopySignToAbs(place, x), hn::Set(d, -127.0F));  // there is no -1
      return hn::BitCast(di, hn::Add(offset, hn::Set(d, 0x1.8p23F + kSignedZeroCode)));
    } else {
      const I32 code = hn::BitCast(di, hn::Add(place, hn::Set(d, 0x1.8p23F - 1)));
      return hn::IfThenElseZero(hn::RebindMask(di, is_more), code);
    }
  }

 private:
  static constexpr bool kIsSigned = kRange == CodeRange::kSigned;
  static constexpr DynamicEncoding kEncoding = dynamic_encoding(kRange);
  using Decades = std::array<float, kNumDecades + 1>;

  // Where a place's exponent, modulo 16, finds its decade. What no place has is 0; so is the place of the unsigned 0.
  static constexpr std::array<float, 16> by_exponent(const Decades& of_decade) {
    std::array<float, 16> table{};
    for (std::size_t decade = 0; decade < of_decade.size(); ++decade) {
      table[(decade + (kIsSigned ? 127 : 128)) % 16] = of_decade[decade];
    }
    return table;
  }

  LaneTable units_;
  LaneTable starts_;
  LaneTable scales_;
  LaneTable places_;
  LaneTable last_places_;
};

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
