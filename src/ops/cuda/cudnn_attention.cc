// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn_attention.h"

#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "device/cuda/cuda_device.h"
#include "ops/cuda/attention_kernels.h"
#include "ops/cuda/cudnn_call.h"

namespace sluice::cuda {
namespace {

CudnnRequest request_of(const CudnnAttentionShape& shape) {
  return {.is_backward = shape.dout_row != 0, .is_packed = !shape.is_whole, .head_dim = shape.head_dim};
}

// A representative shape of a kind of request.
CudnnAttentionShape example_of(const CudnnRequest& request) {
  constexpr std::int64_t kHeads = 8;
  constexpr std::int64_t kKvHeads = 2;
  const std::int64_t q_row = kHeads * request.head_dim;
  const std::int64_t k_row = kKvHeads * request.head_dim;
  return {.num_sequences = request.is_packed ? 4 : 1,
          .num_tokens = 4096,
          .num_heads = kHeads,
          .num_kv_heads = kKvHeads,
          .head_dim = request.head_dim,
          .q_row = q_row,
          .k_row = k_row,
          .v_row = k_row,
          .out_row = q_row,
          .dout_row = request.is_backward ? q_row : 0,
          .is_whole = !request.is_packed};
}

}  // namespace

bool CudnnAttention::open() {
  if (!was_opened_) {
    was_opened_ = true;
    try {
      library_ = std::make_unique<Cudnn>();
      if (rules_.version == 0) rules_.version = library_->version_number();
    } catch (const DeviceError& error) {
      why_not_ = error.what();
    }
  }
  return library_ != nullptr;
}

const CudnnPlan* CudnnAttention::plan_for(const CudnnAttentionShape& shape) {
  if (const auto found = plans_.find(shape); found != plans_.end()) return found->second.get();
  std::unique_ptr<CudnnPlan> plan;
  if (const std::string why_not = rules_.why_not(request_of(shape)); !why_not.empty()) {
    why_not_ = why_not;
    return plans_.emplace(shape, nullptr).first->second.get();
  }
  try {
    plan = shape.dout_row == 0 ? plan_attention_forward(*library_, shape) : plan_attention_backward(*library_, shape);
  } catch (const DeviceError& error) {
    why_not_ = error.what();
  }
  return plans_.emplace(shape, std::move(plan)).first->second.get();
}

const CudnnPlan* CudnnAttention::plan_for_documents(CudnnAttentionShape& shape, const AttentionShape& of,
                                                    const std::vector<PackedDocument>& documents,
                                                    std::int64_t num_rows) {
  if (is_whole(documents, num_rows)) {
    const std::string refused_before = why_not_;
    CudnnAttentionShape whole = shape;
    whole.is_whole = true;
    whole.num_tokens = num_rows;
    whole.window = window_of(of, num_rows);
    if (const CudnnPlan* const plan = plan_for(whole)) {
      shape = whole;
      return plan;
    }
    why_not_ = refused_before;  // a refusal where the other graph does
  }
  shape.num_tokens = rounded_tokens(longest(documents));
  shape.window = window_of(of, shape.num_tokens);
  return plan_for(shape);
}

std::string CudnnAttention::why_not(const CudnnRequest& request, CudnnProbe probe) {
  const std::scoped_lock lock(mutex_);
  if (!open()) return why_not_;
  if (const std::string why_not = rules_.why_not(request); !why_not.empty()) return why_not;
  if (probe == CudnnProbe::kKnown) return "";
  const std::string refused_before = std::exchange(why_not_, "");
  const CudnnPlan* const plan = plan_for(example_of(request));
  const std::string refused = std::exchange(why_not_, refused_before);
  return plan != nullptr ? "" : refused;
}

std::string CudnnAttention::describe() const {
  const std::scoped_lock lock(mutex_);
  const std::string version = library_
                                  ? fmt::format("cuDNN {}, {} plans", cudnn_version_text(rules_.version), plans_.size())
                                  : std::string(was_opened_ ? "no cuDNN" : "cuDNN not asked yet");
  return why_not_.empty() ? version : fmt::format("{} ({})", version, why_not_);
}

bool CudnnAttention::forward(CudaStream& stream, const AttentionForward& args) {
  const std::vector<PackedDocument> documents = documents_of(args);
  if (documents.empty()) return false;
  const std::scoped_lock lock(mutex_);
  if (!open()) return false;
  CudnnAttentionShape shape{.num_sequences = rounded_sequences(documents.size()),
                            .num_heads = args.shape.num_heads,
                            .num_kv_heads = args.shape.num_kv_heads,
                            .head_dim = args.shape.head_dim,
                            .q_row = args.q.rows.shape()[1],
                            .k_row = args.k.rows.shape()[1],
                            .v_row = args.v.rows.shape()[1],
                            .out_row = args.out.shape()[1]};
  const CudnnPlan* const plan = plan_for_documents(shape, args.shape, documents, args.q.rows.shape()[0]);
  if (plan == nullptr) return false;

  Slices slices;
  const ListSlices lists(slices, shape.num_sequences);
  const std::uint64_t statistics_at =
      slices.take(static_cast<std::uint64_t>(total(documents) * shape.num_heads) * sizeof(float));
  const std::uint64_t workspace_at = slices.take(plan->workspace_bytes());
  if (slices.size() > stream.device().scratch().size_bytes()) return false;
  const Scratch scratch = stream.scratch(slices.size(), "the forward of attention");
  std::byte* const memory = scratch.bytes().data();

  const bool wants_statistics = args.log_sum_exp.shape().rank() != 0;
  // Of one whole document they are as the caller wants them.
  std::byte* const statistics =
      shape.is_whole && wants_statistics ? args.log_sum_exp.bytes().data() : memory + statistics_at;
  std::vector<CudnnBinding> bindings = {{kQ, first_head(args.q.rows, args.q.first_col)},
                                        {kK, first_head(args.k.rows, args.k.first_col)},
                                        {kV, first_head(args.v.rows, args.v.first_col)},
                                        {kOut, args.out.bytes().data()},
                                        {kStatistics, statistics}};
  if (!shape.is_whole) {
    bind_lists(stream, documents, lists, memory,
               {{kQOffsets, OffsetList::kQueries, shape.q_row},
                {kKOffsets, OffsetList::kKeys, shape.k_row},
                {kVOffsets, OffsetList::kKeys, shape.v_row},
                {kOutOffsets, OffsetList::kQueries, shape.out_row},
                {kStatisticsOffsets, OffsetList::kPacked, shape.num_heads}},
               bindings);
  }
  const float scale = args.shape.scale;
  const auto window = static_cast<float>(shape.window);
  bind_scalars(shape, scale, window, bindings);
  library_->require(library_->set_stream(library_->handle(), stream.handle()), "cudnnSetStream");
  plan->run(bindings, memory + workspace_at);
  if (wants_statistics && !shape.is_whole) {
    unpack(stream, documents,
           PackedStatistics{.of_heads = reinterpret_cast<float*>(args.log_sum_exp.bytes().data()),
                            .num_tokens = args.q.rows.shape()[0],
                            .packed = reinterpret_cast<float*>(memory + statistics_at),
                            .num_heads = static_cast<int>(shape.num_heads)});
  }
  return true;
}

}  // namespace sluice::cuda
