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
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "ops/cpu/lane_table-inl.h"
#include "ops/cpu/simd-inl.h"
#include "ops/dynamic_map.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

template <CodeRange kRange>
class DynamicCode {
 public:
  HWY_INLINE DynamicCode()
      : units_(dynamic_units(kRange).of_decade), bucket_scales_(bucket_scales()), starts_(decade_starts()) {}

  // dynamic_map()[code], to the bit.
  HWY_INLINE F32 decode(F32Tag d, I32 code) const {
    const I32Tag di;
    const I32 place = kIsSigned ? hn::Abs(hn::Sub(code, hn::Set(di, kSignedZeroCode))) : hn::Add(code, one(di));
    const F32 as_float = hn::ConvertTo(d, place);
    const I32 bits = hn::BitCast(di, as_float);
    const F32 buckets = hn::BitCast(d, hn::And(bits, hn::Set(di, 0x7F800000)));
    // Whole numbers, so no rounding: 18 place - 16 buckets + 9.
    const F32 odd = hn::MulAdd(as_float, hn::Set(d, 18.0F), hn::MulAdd(buckets, hn::Set(d, -16.0F), hn::Set(d, 9.0F)));
    const I32 exponent = hn::ShiftRight<23>(bits);
    const I32 decade = hn::Max(hn::Sub(exponent, hn::Set(di, kIsSigned ? 127 : 128)), hn::Zero(di));
    const F32 magnitude = hn::Mul(odd, units_(d, decade));
    if constexpr (kIsSigned) {
      const auto is_zero = hn::RebindMask(d, hn::Eq(code, hn::Set(di, kSignedZeroCode)));
      const auto is_negative = hn::RebindMask(d, hn::Lt(code, hn::Set(di, kSignedZeroCode)));
      return hn::IfThenZeroElse(is_zero, hn::IfThenElse(is_negative, hn::Neg(magnitude), magnitude));
    } else {
      return hn::IfThenZeroElse(hn::RebindMask(d, hn::Eq(code, hn::Zero(di))), magnitude);
    }
  }

  // The code whose value is nearest, within the rounding of floats; beyond the ends, the code at the end. Of NaN, some
  // code.
  HWY_INLINE I32 encode(F32Tag d, F32 x) const {
    const I32Tag di;
    const F32 magnitude = kIsSigned ? hn::Abs(x) : x;
    I32 reached = hn::Zero(di);  // 0 minus the number of decades that begin at or below
    for (std::size_t decade = 0; decade <= kNumDecades; ++decade) {
      const auto begins_below = hn::Ge(magnitude, hn::Set(d, starts_[decade]));
      reached = hn::Add(reached, hn::BitCast(di, hn::VecFromMask(d, begins_below)));
    }
    const I32 decade = hn::Max(hn::Sub(hn::Neg(reached), one(di)), hn::Zero(di));
    const I32 exponent = hn::Add(decade, hn::Set(di, kIsSigned ? 127 : 128));
    const F32 buckets = hn::BitCast(d, hn::ShiftLeft<23>(exponent));
    // The bucket: (x / 10^(k - 6) - 0.1) / 0.9 of all; its own decade's even where rounding says the neighbour's.
    const F32 scaled = hn::MulSub(magnitude, bucket_scales_(d, decade), hn::Mul(buckets, hn::Set(d, 1.0F / 9)));
    const F32 last = hn::Sub(buckets, hn::Set(d, 1.0F));
    const F32 bucket = hn::Min(hn::Max(scaled, hn::Zero(d)), last);
    I32 place = hn::Add(hn::ConvertTo(di, bucket), hn::ConvertTo(di, buckets));
    // The place of 1 is the first of a decade that has no second.
    constexpr std::int32_t kLastPlace = kIsSigned ? 128 : 256;
    place = hn::Min(place, hn::Set(di, kLastPlace));
    place = hn::IfThenZeroElse(hn::Eq(reached, hn::Zero(di)), place);
    if constexpr (kIsSigned) {
      // There is no -1.
      const I32 below = hn::Max(hn::Sub(hn::Set(di, kSignedZeroCode), place), hn::Zero(di));
      const auto is_negative = hn::RebindMask(di, hn::Lt(x, hn::Zero(d)));
      return hn::IfThenElse(is_negative, below, hn::Add(place, hn::Set(di, kSignedZeroCode)));
    } else {
      return hn::Max(hn::Sub(place, one(di)), hn::Zero(di));
    }
  }

 private:
  static constexpr bool kIsSigned = kRange == CodeRange::kSigned;

  static HWY_INLINE I32 one(I32Tag di) { return hn::Set(di, 1); }

  // Makes buckets of a number: 10^(6 - k) * n / 0.9. The last makes 0 of 1.
  static constexpr std::array<float, kNumDecades + 1> bucket_scales() {
    std::array<float, kNumDecades + 1> scales{};
    double per_decade = 1e6;
    double buckets = first_buckets(kRange);
    for (std::size_t decade = 0; decade < kNumDecades; ++decade) {
      scales[decade] = static_cast<float>(per_decade * buckets / 0.9);
      per_decade /= 10;
      buckets *= 2;
    }
    return scales;
  }

  // Half way between the last value below a decade and its first.
  static constexpr std::array<float, kNumDecades + 1> decade_starts() {
    const std::array<float, 256> map = dynamic_map(kRange);
    std::array<float, kNumDecades + 1> starts{};
    std::size_t first_code = kIsSigned ? 128 : 1;
    std::size_t buckets = first_buckets(kRange);
    for (std::size_t decade = 0; decade <= kNumDecades; ++decade) {
      const double below = map[first_code - 1];
      starts[decade] = static_cast<float>((below + static_cast<double>(map[first_code])) / 2);
      first_code += buckets;
      buckets *= 2;
    }
    return starts;
  }

  LaneTable<kNumDecades + 1> units_;
  LaneTable<kNumDecades + 1> bucket_scales_;
  std::array<float, kNumDecades + 1> starts_;
};

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
