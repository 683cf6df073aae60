// SPDX-License-Identifier: Apache-2.0
// Attention on a card by the fastest implementation that supports the case: cuDNN, our tensor-core kernels, or our f32
// kernels. The choice depends only on the card, cuDNN's version, shapes, dtypes and the scratch memory, so a step
// always takes the same one. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/cuda_stream.h"
#include "device/cuda_plugin.h"
#include "ops/attention.h"
#include "ops/cuda/cudnn_rules.h"

namespace sluice::cuda {

class CudnnAttention;

class Attentions {
 public:
  Attentions(CudaAttention by, const CudnnRules& rules);
  ~Attentions();

  void forward(CudaStream& stream, const AttentionForward& args);
  void backward(CudaStream& stream, const AttentionBackward& args);

  // How often each way was taken, and why cuDNN was not where it was not.
  std::string describe() const;
  // The implementations chosen for the queried cases.
  std::vector<CudaPath> paths(const CudaPathQuery& query) const;

 private:
  enum Way { kCudnn, kTensorCores, kFloat, kNumWays };
  using Counts = std::array<std::atomic<std::uint64_t>, kNumWays>;

  std::unique_ptr<CudnnAttention> cudnn_;  // null: not to be used, or built without
  Counts forwards_ = {};
  Counts backwards_ = {};
};

}  // namespace sluice::cuda
