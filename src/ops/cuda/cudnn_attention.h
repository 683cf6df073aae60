// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN for the cases that it supports: bf16, no soft cap, as many queries as keys in every segment. Plans
// are built once per shape, with document lengths rounded up to share plans, except for a single long document. The
// deterministic backward needs memory quadratic in a document's length; with little scratch memory it runs on fewer
// documents and heads at a time, and falls back to our kernels if even one does not fit. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cuda_stream.h"
#include "ops/attention.h"
#include "ops/cuda/attention_packing.h"
#include "ops/cuda/cudnn_attention_graph.h"
#include "ops/cuda/cudnn_rules.h"

namespace sluice::cuda {

class CudnnAttention {
 public:
  // The card's rules; their version 0 stands for that of the loaded library.
  explicit CudnnAttention(CudnnRules rules) : rules_(std::move(rules)) {}

  // Whether it was put on the stream; else nothing was.
  bool forward(CudaStream& stream, const AttentionForward& args);
  bool backward(CudaStream& stream, const AttentionBackward& args);

  // Empty: cuDNN computes such attention, given enough scratch memory. Otherwise the reason why it does not.
  std::string why_not(const CudnnRequest& request, CudnnProbe probe);
  // The version, or why there is none; and what it refused last.
  std::string describe() const;

 private:
  struct BackwardPart;
  struct BackwardCut;

  bool open();
  // Null where cuDNN cannot.
  const CudnnPlan* plan_for(const CudnnAttentionShape& shape);
  // Puts into the shape what follows from the documents: taken whole where one of them is all `num_rows` and cuDNN can.
  const CudnnPlan* plan_for_documents(CudnnAttentionShape& shape, const AttentionShape& of,
                                      const std::vector<PackedDocument>& documents, std::int64_t num_rows);
  std::optional<BackwardCut> cut_backward(const AttentionBackward& args, const std::vector<PackedDocument>& documents,
                                          std::uint64_t scratch_bytes);
  void put_part(CudaStream& stream, const AttentionBackward& args, const BackwardPart& part, std::int64_t first_kv_head,
                std::byte* scratch);

  CudnnRules rules_;
  mutable std::mutex mutex_;
  bool was_opened_ = false;
  std::unique_ptr<Cudnn> library_;
  std::string why_not_;
  std::map<CudnnAttentionShape, std::unique_ptr<CudnnPlan>> plans_;
};

}  // namespace sluice::cuda
