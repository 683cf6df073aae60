// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "ops/cuda/activation.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256;

struct ValueSlope {
  float value;
  float slope;
};

// sigmoid(x) and 1 - sigmoid(x), both without cancellation.
struct Sigmoid {
  float value;
  float complement;
};
// What ends as bf16 is well served by the card's short ways to an exponential and a quotient.
template <typename T>
__device__ Sigmoid sigmoid_of(float x) {
  constexpr bool kShort = sizeof(T) < sizeof(float);
  const float e = kShort ? __expf(-x) : expf(-x);
  const float value = kShort ? __fdividef(1.0F, 1 + e) : 1 / (1 + e);
  return {value, e < 1 ? e * value : 1 - value};
}

template <Activation kActivation, typename T>
__device__ ValueSlope activate(float x) {
  if constexpr (kActivation == Activation::kSilu) {
    const Sigmoid sigmoid = sigmoid_of<T>(x);
    return {x * sigmoid.value, sigmoid.value * (1 + x * sigmoid.complement)};
  } else if constexpr (kActivation == Activation::kGelu) {
    const float cdf = normcdff(x);
    const float density = expf(-0.5F * x * x) * 0.398942280F;  // 1 / sqrt(2 pi)
    return {x * cdf, cdf + x * density};
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    // x / 2 * (1 + tanh(u)) is x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), without cancellation.
    const float twice = 1.59576912F;    // 2 sqrt(2 / pi)
    const float cubic = 0.0713548163F;  // 2 sqrt(2 / pi) 0.044715
    const float square = x * x;
    const Sigmoid sigmoid = sigmoid_of<T>(x * (square * cubic + twice));
    const float inner = x * (square * (3 * cubic) + twice) * sigmoid.complement;
    return {x * sigmoid.value, sigmoid.value * (1 + inner)};
  } else {
    return {x < 0 ? 0 : x, x <= 0 ? 0.0F : 1.0F};
  }
}

template <typename T>
struct Rows {
  const T* x;
  const T* dh;  // backward
  T* to;        // h, or dx
  std::int64_t width;
};

template <Activation kActivation, Gating kGating, typename T, int kVec>
__global__ void __launch_bounds__(kThreads) forward_kernel(Rows<T> args) {
  using P = Pack<T, kVec>;
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) * kVec;
  if (at >= args.width) return;
  const std::int64_t row = blockIdx.x;
  const T* const x = args.x + row * args.width * (kGating == Gating::kGated ? 2 : 1) + at;
  const P gate = *reinterpret_cast<const P*>(x);
  P up = gate;
  if constexpr (kGating == Gating::kGated) up = *reinterpret_cast<const P*>(x + args.width);
  P out;
#pragma unroll
  for (int j = 0; j < kVec; ++j) {
    float value = activate<kActivation, T>(to_float(gate.at[j])).value;
    if constexpr (kGating == Gating::kGated) value *= to_float(up.at[j]);
    out.at[j] = from_float<T>(value);
  }
  *reinterpret_cast<P*>(args.to + row * args.width + at) = out;
}

template <Activation kActivation, Gating kGating, typename T, int kVec>
__global__ void __launch_bounds__(kThreads) backward_kernel(Rows<T> args) {
  using P = Pack<T, kVec>;
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) * kVec;
  if (at >= args.width) return;
  const std::int64_t row = blockIdx.x;
  const std::int64_t first = row * args.width * (kGating == Gating::kGated ? 2 : 1) + at;
  const P gate = *reinterpret_cast<const P*>(args.x + first);
  const P dh = *reinterpret_cast<const P*>(args.dh + row * args.width + at);
  P up = gate;
  if constexpr (kGating == Gating::kGated) up = *reinterpret_cast<const P*>(args.x + first + args.width);
  P dgate;
  P dup;
#pragma unroll
  for (int j = 0; j < kVec; ++j) {
    const ValueSlope act = activate<kActivation, T>(to_float(gate.at[j]));
    float grad = to_float(dh.at[j]);
    if constexpr (kGating == Gating::kGated) {
      dup.at[j] = from_float<T>(grad * act.value);
      grad *= to_float(up.at[j]);
    }
    dgate.at[j] = from_float<T>(grad * act.slope);
  }
  *reinterpret_cast<P*>(args.to + first) = dgate;
  if constexpr (kGating == Gating::kGated) *reinterpret_cast<P*>(args.to + first + args.width) = dup;
}

template <Activation kActivation>
using ActivationConstant = std::integral_constant<Activation, kActivation>;

// use(activation, gating) as integral constants.
template <typename Use>
void with_function(Activation activation, Gating gating, const Use& use) {
  const auto with_gating = [&](auto function) {
    if (gating == Gating::kGated) {
      use(function, std::integral_constant<Gating, Gating::kGated>());
    } else {
      use(function, std::integral_constant<Gating, Gating::kPlain>());
    }
  };
  switch (activation) {
    case Activation::kSilu:
      return with_gating(ActivationConstant<Activation::kSilu>());
    case Activation::kGelu:
      return with_gating(ActivationConstant<Activation::kGelu>());
    case Activation::kGeluTanh:
      return with_gating(ActivationConstant<Activation::kGeluTanh>());
    case Activation::kRelu:
      return with_gating(ActivationConstant<Activation::kRelu>());
  }
}

dim3 grid_of(std::int64_t num_rows, std::int64_t width, int vec) {
  return {static_cast<unsigned>(num_rows),
          static_cast<unsigned>(div_up(width, static_cast<std::int64_t>(kThreads) * vec)), 1};
}

template <typename T>
bool takes_vectors(const Rows<T>& rows) {
  return is_aligned_for_vectors(rows.x) && is_aligned_for_vectors(rows.dh) && is_aligned_for_vectors(rows.to) &&
         rows.width % kFullVec<T> == 0;
}

}  // namespace

void activation_forward(CudaStream& stream, const ActivationForward& args) {
  const std::int64_t num_rows = args.h.shape()[0];
  const std::int64_t width = args.h.shape()[1];
  if (num_rows == 0 || width == 0) return;
  with_float_type(args.x.dtype(), [&](auto element) {
    using T = decltype(element);
    const Rows<T> rows{.x = data<T>(args.x), .dh = nullptr, .to = data<T>(args.h), .width = width};
    with_function(args.activation, args.gating, [&](auto function, auto gating) {
      if (takes_vectors(rows)) {
        constexpr int kVec = kFullVec<T>;
        launch<forward_kernel<function(), gating(), T, kVec>, kThreads>(stream, grid_of(num_rows, width, kVec), rows);
      } else {
        launch<forward_kernel<function(), gating(), T, 1>, kThreads>(stream, grid_of(num_rows, width, 1), rows);
      }
    });
  });
}

void activation_backward(CudaStream& stream, const ActivationBackward& args) {
  const std::int64_t num_rows = args.dh.shape()[0];
  const std::int64_t width = args.dh.shape()[1];
  if (num_rows == 0 || width == 0) return;
  with_float_type(args.x.dtype(), [&](auto element) {
    using T = decltype(element);
    const Rows<T> rows{.x = data<T>(args.x), .dh = data<T>(args.dh), .to = data<T>(args.dx), .width = width};
    with_function(args.activation, args.gating, [&](auto function, auto gating) {
      if (takes_vectors(rows)) {
        constexpr int kVec = kFullVec<T>;
        launch<backward_kernel<function(), gating(), T, kVec>, kThreads>(stream, grid_of(num_rows, width, kVec), rows);
      } else {
        launch<backward_kernel<function(), gating(), T, 1>, kThreads>(stream, grid_of(num_rows, width, 1), rows);
      }
    });
  });
}

}  // namespace sluice::cuda
