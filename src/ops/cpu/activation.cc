// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/activation.h"

#include <algorithm>

#include "base/bf16.h"
#include "base/units.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/activation.cc"  // NOLINT
#include "hwy/foreach_target.h"                     // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/math-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

struct ValueSlope {
  F32 value;
  F32 slope;
};

// x * sigmoid(x)
struct Silu {
  static HWY_INLINE ValueSlope of(F32Tag d, F32 x) {
    const F32 one = hn::Set(d, 1.0F);
    const Sigmoid sigmoid = sigmoid_of(d, x);
    return {hn::Mul(x, sigmoid.value), hn::Mul(sigmoid.value, hn::MulAdd(x, sigmoid.complement, one))};
  }
};

// x * P(X <= x), X normal
struct Gelu {
  static HWY_INLINE ValueSlope of(F32Tag d, F32 x) {
    const NormalCdf normal = normal_cdf_of(d, x);
    const F32 density = hn::Mul(normal.bell, hn::Set(d, 0.398942280F));  // 1 / sqrt(2 pi)
    return {hn::Mul(x, normal.cdf), hn::MulAdd(x, density, normal.cdf)};
  }
};

// x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), which is x * sigmoid(2 u): exact for negative x too,
// where 1 + tanh would cancel.
struct GeluTanh {
  static HWY_INLINE ValueSlope of(F32Tag d, F32 x) {
    const F32 one = hn::Set(d, 1.0F);
    const F32 twice = hn::Set(d, 1.59576912F);    // 2 sqrt(2 / pi)
    const F32 cubic = hn::Set(d, 0.0713548163F);  // 2 sqrt(2 / pi) 0.044715
    const F32 cubic3 = hn::Set(d, 0.214064449F);  // thrice that
    const F32 square = hn::Mul(x, x);
    const Sigmoid sigmoid = sigmoid_of(d, hn::Mul(x, hn::MulAdd(square, cubic, twice)));
    const F32 inner = hn::Mul(hn::Mul(x, hn::MulAdd(square, cubic3, twice)), sigmoid.complement);
    return {hn::Mul(x, sigmoid.value), hn::Mul(sigmoid.value, hn::Add(one, inner))};
  }
};

struct Relu {
  static HWY_INLINE ValueSlope of(F32Tag d, F32 x) {
    const F32 zero = hn::Zero(d);
    const auto below = hn::Lt(x, zero);
    return {hn::IfThenElse(below, zero, x), hn::IfThenElse(hn::Le(x, zero), zero, hn::Set(d, 1.0F))};
  }
};

// Of one row, elements [first, end) of h.
struct RowPart {
  std::size_t width;
  std::size_t first;
  std::size_t end;
};

template <class Function, typename T>
void forward_part(const T* x, T* h, Gating gating, const RowPart& row) {
  const F32Tag d;
  const T* up = x + row.width;
  over_lanes(row.first, row.end, [&](std::size_t at, auto part) SLUICE_LANES {
    F32 out = Function::of(d, part.load(d, x + at)).value;
    if (gating == Gating::kGated) out = hn::Mul(out, part.load(d, up + at));
    part.store(d, out, h + at);
  });
}

template <class Function, typename T>
void backward_part(const T* x, const T* dh, T* dx, Gating gating, const RowPart& row) {
  const F32Tag d;
  over_lanes(row.first, row.end, [&](std::size_t at, auto part) SLUICE_LANES {
    const ValueSlope act = Function::of(d, part.load(d, x + at));
    F32 grad = part.load(d, dh + at);
    if (gating == Gating::kGated) {
      const F32 up = part.load(d, x + row.width + at);
      part.store(d, hn::Mul(grad, act.value), dx + row.width + at);
      grad = hn::Mul(grad, up);
    }
    part.store(d, hn::Mul(grad, act.slope), dx + at);
  });
}

template <typename T>
void forward_typed(const ActivationForward& args, std::size_t row_idx, const RowPart& row) {
  const T* x = args.x.as<T>().data() + row_idx * static_cast<std::size_t>(args.x.shape()[1]);
  T* h = args.h.as<T>().data() + row_idx * row.width;
  switch (args.activation) {
    case Activation::kSilu:
      return forward_part<Silu>(x, h, args.gating, row);
    case Activation::kGelu:
      return forward_part<Gelu>(x, h, args.gating, row);
    case Activation::kGeluTanh:
      return forward_part<GeluTanh>(x, h, args.gating, row);
    case Activation::kRelu:
      return forward_part<Relu>(x, h, args.gating, row);
  }
}

template <typename T>
void backward_typed(const ActivationBackward& args, std::size_t row_idx, const RowPart& row) {
  const T* x = args.x.as<T>().data() + row_idx * static_cast<std::size_t>(args.x.shape()[1]);
  T* dx = args.dx.as<T>().data() + row_idx * static_cast<std::size_t>(args.x.shape()[1]);
  const T* dh = args.dh.as<T>().data() + row_idx * row.width;
  switch (args.activation) {
    case Activation::kSilu:
      return backward_part<Silu>(x, dh, dx, args.gating, row);
    case Activation::kGelu:
      return backward_part<Gelu>(x, dh, dx, args.gating, row);
    case Activation::kGeluTanh:
      return backward_part<GeluTanh>(x, dh, dx, args.gating, row);
    case Activation::kRelu:
      return backward_part<Relu>(x, dh, dx, args.gating, row);
  }
}

void forward_row(const ActivationForward& args, std::size_t row_idx, std::size_t first, std::size_t end) {
  const RowPart row = {static_cast<std::size_t>(args.h.shape()[1]), first, end};
  args.x.dtype() == DType::kF32 ? forward_typed<float>(args, row_idx, row) : forward_typed<BF16>(args, row_idx, row);
}

void backward_row(const ActivationBackward& args, std::size_t row_idx, std::size_t first, std::size_t end) {
  const RowPart row = {static_cast<std::size_t>(args.dh.shape()[1]), first, end};
  args.x.dtype() == DType::kF32 ? backward_typed<float>(args, row_idx, row) : backward_typed<BF16>(args, row_idx, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(forward_row);
HWY_EXPORT(backward_row);

// Rows are cut so that even one token's row is work for several threads.
constexpr std::int64_t kItemElements = 4096;

// part(row_idx, first, end) for parts of rows (rows, width).
template <typename Part>
void over_row_parts(WorkerTeam& team, const Shape& shape, const Part& part) {
  const std::int64_t width = shape[1];
  const auto parts_each = static_cast<std::int64_t>(div_ceil(width, kItemElements));
  team.for_each(shape[0] * parts_each, [&](std::int64_t item_idx, std::size_t) {
    const std::int64_t first = item_idx % parts_each * kItemElements;
    part(static_cast<std::size_t>(item_idx / parts_each), static_cast<std::size_t>(first),
         static_cast<std::size_t>(std::min(width, first + kItemElements)));
  });
}

}  // namespace

void activation_forward(WorkerTeam& team, const ActivationForward& args) {
  over_row_parts(team, args.h.shape(), [&](std::size_t row_idx, std::size_t first, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(forward_row)(args, row_idx, first, end);
  });
}

void activation_backward(WorkerTeam& team, const ActivationBackward& args) {
  over_row_parts(team, args.dh.shape(), [&](std::size_t row_idx, std::size_t first, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(backward_row)(args, row_idx, first, end);
  });
}

}  // namespace sluice::cpu
#endif
