// SPDX-License-Identifier: Apache-2.0
// Functions of floats for kernels, accurate to a few units in the last place over all floats; NaN stays NaN. Include
// as simd-inl.h is included.
#if defined(SLUICE_OPS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_MATH_INL_H_
#undef SLUICE_OPS_CPU_MATH_INL_H_
#else
#define SLUICE_OPS_CPU_MATH_INL_H_  // NOLINT
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

// Highway's has a range and makes 0 of NaN.
HWY_INLINE F32 exp_of(F32Tag d, F32 x) {
  const F32 within = hn::Min(hn::Max(x, hn::Set(d, -104.0F)), hn::Set(d, 104.0F));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, within));
}

// sigmoid(x) and 1 - sigmoid(x), both without cancellation.
struct Sigmoid {
  F32 value;
  F32 complement;
};
HWY_INLINE Sigmoid sigmoid_of(F32Tag d, F32 x) {
  const F32 one = hn::Set(d, 1.0F);
  const F32 e = exp_of(d, hn::Neg(x));
  const F32 value = hn::Div(one, hn::Add(one, e));
  return {value, hn::IfThenElse(hn::Lt(e, one), hn::Mul(e, value), hn::Sub(one, value))};
}

// tanh(x) and its derivative 1 - tanh(x)^2, the latter without the cancellation.
struct TanhSlope {
  F32 tanh;
  F32 slope;
};
HWY_INLINE TanhSlope tanh_of(F32Tag d, F32 x) {
  const F32 two = hn::Set(d, 2.0F);
  // With e = exp(-2|x|) - 1: tanh|x| = -e / (2 + e), slope = 4 exp(-2|x|) / (2 + e)^2. Beyond 52, the latter is 0.
  const F32 magnitude = hn::Min(hn::Abs(x), hn::Set(d, 52.0F));
  const F32 exponent = hn::Mul(hn::Set(d, -2.0F), magnitude);
  const F32 e = hn::Expm1(d, exponent);
  const F32 inverse = hn::Div(hn::Set(d, 1.0F), hn::Add(two, e));
  const F32 tanh = hn::CopySignToAbs(hn::Mul(hn::Neg(e), inverse), x);
  const F32 twice_inverse = hn::Mul(two, inverse);
  const F32 slope = hn::Mul(hn::Exp(d, exponent), hn::Mul(twice_inverse, twice_inverse));
  const auto nan = hn::IsNaN(x);
  return {hn::IfThenElse(nan, x, tanh), hn::IfThenElse(nan, x, slope)};
}

// The normal distribution: P(X <= x) and exp(-x^2 / 2), which is its density but for a factor.
struct NormalCdf {
  F32 cdf;
  F32 bell;
};
HWY_INLINE NormalCdf normal_cdf_of(F32Tag d, F32 x) {
  const F32 one = hn::Set(d, 1.0F);
  const F32 magnitude = hn::Min(hn::Abs(x), hn::Set(d, 15.0F));  // beyond, the bell is 0

  // exp(-a^2 / 2) of a rounded square would be off by the square's rounding. The upper 12 bits of a have an exact
  // square; what is left is small, so that four terms of its exponential are enough.
  const hn::RebindToUnsigned<F32Tag> d32;
  const F32 upper = hn::BitCast(d, hn::And(hn::BitCast(d32, magnitude), hn::Set(d32, 0xFFFFF000U)));
  const F32 rest = hn::Mul(hn::Mul(hn::Sub(upper, magnitude), hn::Add(upper, magnitude)), hn::Set(d, 0.5F));
  F32 factor = hn::MulAdd(rest, hn::Set(d, 1.0F / 6), hn::Set(d, 0.5F));
  factor = hn::MulAdd(rest, hn::MulAdd(rest, factor, one), one);
  const F32 bell = hn::Mul(hn::Exp(d, hn::Mul(hn::Mul(upper, upper), hn::Set(d, -0.5F))), factor);

  // P(X <= -a) = bell * M(a), and (a + k) M(a) is a smooth function of t = (a - k) / (a + k): a polynomial by Chebyshev
  // interpolation on a in [0, 15], relative error 2e-8. k = 3.75 makes that error the smallest for this degree.
  const F32 k = hn::Set(d, 3.75F);
  const F32 inverse = hn::Div(one, hn::Add(magnitude, k));
  const F32 t = hn::Mul(hn::Sub(magnitude, k), inverse);
  F32 p = hn::Set(d, 0.000440965319F);
  p = hn::MulAdd(p, t, hn::Set(d, 0.000506369921F));
  p = hn::MulAdd(p, t, hn::Set(d, -0.00416754698F));
  p = hn::MulAdd(p, t, hn::Set(d, 0.0012027059F));
  p = hn::MulAdd(p, t, hn::Set(d, 0.0374922976F));
  p = hn::MulAdd(p, t, hn::Set(d, -0.151521459F));
  p = hn::MulAdd(p, t, hn::Set(d, 0.352939606F));
  p = hn::MulAdd(p, t, hn::Set(d, -0.588188231F));
  p = hn::MulAdd(p, t, hn::Set(d, 0.750294089F));
  const F32 tail = hn::Mul(hn::Mul(p, inverse), bell);

  const F32 cdf = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
  const auto nan = hn::IsNaN(x);
  return {hn::IfThenElse(nan, x, cdf), hn::IfThenElse(nan, x, bell)};
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
