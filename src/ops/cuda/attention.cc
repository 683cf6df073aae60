// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/attention.h"

#include <fmt/core.h>

#include "ops/cuda/attention_kernels.h"

// Not every toolkit brings cuDNN's headers.
#if defined(SLUICE_HAS_CUDNN)
#include "ops/cuda/cudnn_attention.h"
#endif

namespace sluice::cuda {

#if !defined(SLUICE_HAS_CUDNN)
class CudnnAttention {
 public:
  template <typename Args>
  bool forward(CudaStream& /*stream*/, const Args& /*args*/) {
    return false;
  }
  template <typename Args>
  bool backward(CudaStream& /*stream*/, const Args& /*args*/) {
    return false;
  }
  std::string describe() const { return "built without cuDNN"; }
};
#endif

Attentions::Attentions(CudaAttention by)
    : cudnn_(by == CudaAttention::kFastest ? std::make_unique<CudnnAttention>() : nullptr) {}
Attentions::~Attentions() = default;

void Attentions::forward(CudaStream& stream, const AttentionForward& args) {
  if (cudnn_ && cudnn_->forward(stream, args)) {
    ++forwards_[kCudnn];
  } else if (suits_tensor_cores(args)) {
    attention_forward_on_tensor_cores(stream, args);
    ++forwards_[kTensorCores];
  } else {
    attention_forward_in_float(stream, args);
    ++forwards_[kFloat];
  }
}

void Attentions::backward(CudaStream& stream, const AttentionBackward& args) {
  if (cudnn_ && cudnn_->backward(stream, args)) {
    ++backwards_[kCudnn];
  } else if (suits_tensor_cores(args)) {
    attention_backward_on_tensor_cores(stream, args);
    ++backwards_[kTensorCores];
  } else {
    attention_backward_in_float(stream, args);
    ++backwards_[kFloat];
  }
}

std::string Attentions::describe() const {
  const auto text = [](const Counts& counts) {
    return fmt::format("{} by cuDNN, {} on tensor cores, {} in float", counts[kCudnn].load(),
                       counts[kTensorCores].load(), counts[kFloat].load());
  };
  return fmt::format("attention forward: {}; backward: {}; {}", text(forwards_), text(backwards_),
                     cudnn_ ? cudnn_->describe() : "cuDNN not to be used");
}

}  // namespace sluice::cuda
