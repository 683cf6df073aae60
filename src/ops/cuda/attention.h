// SPDX-License-Identifier: Apache-2.0
// Attention on a card, by the fastest way that can: cuDNN, our kernels on tensor cores, or our kernels in float. Which
// one follows from the card, cuDNN's version, shapes, dtypes and the scratch memory alone, so a step is computed in one
// way every time. Thread-safe.
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
  // Which way is taken.
  std::vector<CudaPath> paths(const CudaPathQuery& query) const;

 private:
  enum Way { kCudnn, kTensorCores, kFloat, kNumWays };
  using Counts = std::array<std::atomic<std::uint64_t>, kNumWays>;

  std::unique_ptr<CudnnAttention> cudnn_;  // null: not to be used, or built without
  Counts forwards_ = {};
  Counts backwards_ = {};
};

}  // namespace sluice::cuda
