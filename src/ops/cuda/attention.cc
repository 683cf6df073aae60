// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/attention.h"

#include <utility>

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
  explicit CudnnAttention(const CudnnRules& /*rules*/) {}
  template <typename Args>
  bool forward(CudaStream& /*stream*/, const Args& /*args*/) {
    return false;
  }
  template <typename Args>
  bool backward(CudaStream& /*stream*/, const Args& /*args*/) {
    return false;
  }
  std::string why_not(const CudnnRequest& /*request*/, CudnnProbe /*probe*/) { return "built without cuDNN"; }
  std::string describe() const { return "built without cuDNN"; }
};
#endif

Attentions::Attentions(CudaAttention by, const CudnnRules& rules)
    : cudnn_(by == CudaAttention::kFastest ? std::make_unique<CudnnAttention>(rules) : nullptr) {}
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

std::vector<CudaPath> Attentions::paths(const CudaPathQuery& query) const {
  const auto path_of = [&](bool is_backward, std::int64_t head_dim) {
    CudnnRequest request{.is_backward = is_backward, .is_packed = true, .head_dim = head_dim};
    CudaPath path{.operation = "", .by = "own kernels", .because = "cuDNN not to be used"};
    if (!cudnn_) return path;
    path.because = cudnn_->why_not(request, query.probe);
    if (path.because.empty()) {
      path.by = "cuDNN";
      return path;
    }
    request.is_packed = false;
    if (cudnn_->why_not(request, query.probe).empty())
      path.by = "cuDNN for one long document, own kernels for packed ones";
    return path;
  };
  std::vector<CudaPath> paths;
  for (const bool is_backward : {false, true}) {
    const std::string operation = fmt::format("attention {} in bf16, heads of ", is_backward ? "backward" : "forward");
    const std::size_t first = paths.size();
    for (const std::int64_t head_dim : query.head_dims) {
      CudaPath path = path_of(is_backward, head_dim);
      if (paths.size() > first && paths.back().by == path.by && paths.back().because == path.because) {
        paths.back().operation += fmt::format(", {}", head_dim);
      } else {
        path.operation = operation + std::to_string(head_dim);
        paths.push_back(std::move(path));
      }
    }
  }
  return paths;
}

}  // namespace sluice::cuda
