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
#include "ops/dynamic_map.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

template <CodeRange kRange>
class DynamicCode {
 public:
  HWY_INLINE DynamicCode()
      : units_(by_exponent(dynamic_units(kRange).of_decade)), scales_(scales()), starts_(starts()) {}

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

  // The code of the value nearest to x, within the rounding of floats; beyond the ends, the code at the end; of NaN,
  // some code. Unsigned, only a number that is not `more than 0` gets the code of 0.
  HWY_INLINE I32 encode(F32Tag d, F32 x, hn::Mask<F32Tag> is_more) const {
    const I32Tag di;
    const F32 magnitude = kIsSigned ? hn::Abs(x) : x;
    // The exponent and fraction, read as one number, are a log2 that is 0.09 too small at most. That names the decade
    // that x begins or is in, or the one above it where x is short of its beginning.
    const F32 log2 = hn::ConvertTo(d, hn::BitCast(di, magnitude));
    const F32 log10 = hn::MulAdd(log2, hn::Set(d, kLog10Of2 * 0x1p-23F), hn::Set(d, 7.03F - 127 * kLog10Of2));
    const F32 named = hn::Min(hn::Max(log10, hn::Zero(d)), hn::Set(d, static_cast<float>(kNumDecades)));
    const I32 upper = hn::ConvertTo(di, named);
    const auto is_short = hn::RebindMask(di, hn::Lt(magnitude, starts_(d, upper)));
    const I32 decade = hn::Sub(upper, hn::IfThenElseZero(is_short, hn::Set(di, 1)));
    const I32 own = hn::Max(decade, hn::Zero(di));
    const F32 buckets = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(own, hn::Set(di, kIsSigned ? 127 : 128))));
    // The bucket's number, (x / 10^(k - 6) - 0.1) / 0.9 of all, less a half: what is nearest to that is what is below.
    const F32 shift = hn::MulAdd(buckets, hn::Set(d, -1.0F / 9), hn::Set(d, -0.5F));
    const F32 exact = hn::MulAdd(magnitude, scales_(d, own), shift);
    const F32 bucket = hn::Min(hn::Max(exact, hn::Zero(d)), hn::Sub(buckets, hn::Set(d, 1.0F)));
    // 2^23 leaves no bits for what comes after the point.
    const F32 rounded = hn::Add(bucket, hn::Add(buckets, hn::Set(d, 0x1p23F)));
    const I32 place = hn::And(hn::BitCast(di, rounded), hn::Set(di, 0x1FF));
    if constexpr (kIsSigned) {
      const I32 reached = hn::IfThenZeroElse(hn::Lt(decade, hn::Zero(di)), place);
      const I32 sign = hn::ShiftRight<31>(hn::BitCast(di, x));
      const I32 code = hn::Add(hn::Sub(hn::Xor(reached, sign), sign), hn::Set(di, kSignedZeroCode));
      return hn::Max(code, hn::Zero(di));  // there is no -1
    } else {
      return hn::IfThenElseZero(hn::RebindMask(di, is_more), hn::Sub(place, hn::Set(di, 1)));
    }
  }

 private:
  static constexpr bool kIsSigned = kRange == CodeRange::kSigned;
  static constexpr float kLog10Of2 = 0.30103F;
  using Decades = std::array<float, kNumDecades + 1>;

  // Where a place's exponent, modulo 16, finds its decade. What no place has is 0; so is the place of the unsigned 0.
  static constexpr std::array<float, 16> by_exponent(const Decades& of_decade) {
    std::array<float, 16> table{};
    for (std::size_t decade = 0; decade < of_decade.size(); ++decade) {
      table[(decade + (kIsSigned ? 127 : 128)) % 16] = of_decade[decade];
    }
    return table;
  }

  // Makes buckets of a number: 10^(6 - k) * n / 0.9. The last leaves 1 in the first bucket.
  static constexpr std::array<float, 16> scales() {
    std::array<float, 16> table{};
    double per_decade = 1e6;
    double buckets = first_buckets(kRange);
    for (std::size_t decade = 0; decade < kNumDecades; ++decade) {
      table[decade] = static_cast<float>(per_decade * buckets / 0.9);
      per_decade /= 10;
      buckets *= 2;
    }
    return table;
  }

  // Half way between the last value below a decade and its first.
  static constexpr std::array<float, 16> starts() {
    const std::array<float, 256> map = dynamic_map(kRange);
    std::array<float, 16> table{};
    std::size_t first_code = kIsSigned ? 128 : 1;
    std::size_t buckets = first_buckets(kRange);
    for (std::size_t decade = 0; decade <= kNumDecades; ++decade) {
      const double below = map[first_code - 1];
      table[decade] = static_cast<float>((below + static_cast<double>(map[first_code])) / 2);
      first_code += buckets;
      buckets *= 2;
    }
    return table;
  }

  LaneTable units_;
  LaneTable scales_;
  LaneTable starts_;
};

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
