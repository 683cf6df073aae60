// SPDX-License-Identifier: Apache-2.0
// Fused where the CPU fuses, so that the bits are the same.
#include <type_traits>

#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/master.cuh"
#include "ops/cuda/sgd.h"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256;

struct Factors {
  float grad_scale;
  float learning_rate;
  float momentum;
  float weight_decay;
};

template <class Master, typename Grad>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(Factors with, Master master, const Grad* grad, float* velocity, std::int64_t count) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= count) return;
  const float old = master.template load<1>(at).at[0];
  float direction = __fmaf_rn(with.weight_decay, old, __fmul_rn(to_float(grad[at]), with.grad_scale));
  if (velocity != nullptr) {
    direction = __fmaf_rn(with.momentum, velocity[at], direction);
    velocity[at] = direction;
  }
  master.store(at, Pack<float, 1>{__fmaf_rn(-with.learning_rate, direction, old)});
}

}  // namespace

void sgd(CudaStream& stream, const Sgd& args) {
  const std::int64_t count = args.weight.shape().num_elements();
  if (count == 0) return;
  const Factors with{.grad_scale = args.settings.grad_scale,
                     .learning_rate = static_cast<float>(args.settings.learning_rate),
                     .momentum = static_cast<float>(args.settings.momentum),
                     .weight_decay = static_cast<float>(args.settings.weight_decay)};
  float* const velocity = args.velocity.bytes().empty() ? nullptr : data<float>(args.velocity);
  with_master(args.weight, args.trailing, args.grad, [&](const auto& master, const auto* grad) {
    using Master = std::decay_t<decltype(master)>;
    using Grad = std::decay_t<decltype(*grad)>;
    launch<sgd_kernel<Master, Grad>, kThreads>(stream, static_cast<unsigned>(div_up(count, kThreads)), with, master,
                                               grad, velocity, count);
  });
}

}  // namespace sluice::cuda
