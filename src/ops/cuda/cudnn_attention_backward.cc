// SPDX-License-Identifier: Apache-2.0
// The backward of attention by cuDNN, cut into as many calls as scratch memory asks for.
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/units.h"
#include "device/cuda/cuda_device.h"
#include "ops/cuda/attention_kernels.h"
#include "ops/cuda/cudnn_attention.h"
#include "ops/cuda/cudnn_call.h"

namespace sluice::cuda {
namespace {

// Of a backward that is cut small: beyond, launches take longer than kernels of our own.
constexpr std::int64_t kMaxCalls = 64;

}  // namespace

// Documents that go at once, and where what they need is in scratch memory. Everything that cuDNN asks to have the
// layout of queries or keys is packed: it is known to go wrong where gradients lie otherwise than what they are of.
struct CudnnAttention::BackwardPart {
  BackwardPart(CudnnAttentionShape shape_of_it, const CudnnPlan* plan_of_it,
               std::vector<PackedDocument> documents_of_it, Slices& slices)
      : shape(shape_of_it),
        plan(plan_of_it),
        documents(std::move(documents_of_it)),
        lists(slices, shape.num_sequences) {
    const auto rows = static_cast<std::uint64_t>(total(documents));
    const std::uint64_t q_bytes = rows * static_cast<std::uint64_t>(shape.q_row) * kElementBytes;
    const std::uint64_t k_bytes = rows * static_cast<std::uint64_t>(shape.k_row) * kElementBytes;
    const std::uint64_t statistic_bytes = rows * static_cast<std::uint64_t>(shape.num_heads) * sizeof(float);
    q = slices.take(q_bytes);
    dq = slices.take(q_bytes);
    k = slices.take(k_bytes);
    v = slices.take(k_bytes);
    dk = slices.take(k_bytes);
    dv = slices.take(k_bytes);
    full_dk = slices.take(shape.has_full_gradients() ? q_bytes : 0);
    full_dv = slices.take(shape.has_full_gradients() ? q_bytes : 0);
    statistics = slices.take(shape.is_whole ? 0 : statistic_bytes);
    delta = slices.take(statistic_bytes);
    workspace = slices.take(plan->workspace_bytes());
  }

  CudnnAttentionShape shape;
  const CudnnPlan* plan;
  std::vector<PackedDocument> documents;
  ListSlices lists;
  std::uint64_t q, dq, k, v, dk, dv, full_dk, full_dv, statistics, delta, workspace;
};

struct CudnnAttention::BackwardCut {
  std::int64_t kv_heads_each = 0;
  std::vector<BackwardPart> parts;
  std::uint64_t scratch_bytes = 0;
};

std::optional<CudnnAttention::BackwardCut> CudnnAttention::cut_backward(const AttentionBackward& args,
                                                                        const std::vector<PackedDocument>& documents,
                                                                        std::uint64_t scratch_bytes) {
  const AttentionShape& of = args.shape;
  const std::int64_t group = of.num_heads / of.num_kv_heads;
  struct Choice {
    std::int64_t num_sequences, kv_heads;
  };
  std::vector<Choice> choices;  // the fastest first
  for (std::int64_t num = rounded_sequences(documents.size()); num >= 1; num /= 2) {
    choices.push_back({num, of.num_kv_heads});
  }
  for (std::int64_t heads = of.num_kv_heads - 1; heads >= 1; --heads) {
    if (of.num_kv_heads % heads == 0) choices.push_back({1, heads});
  }
  for (const Choice& choice : choices) {
    // What cuDNN's way to the same bits takes, at least.
    const auto most = static_cast<std::uint64_t>(rounded_tokens(longest(documents)));
    const std::uint64_t square_bytes =
        static_cast<std::uint64_t>(choice.num_sequences * choice.kv_heads * group) * most * most * kElementBytes;
    const std::int64_t num_calls = (static_cast<std::int64_t>(documents.size()) + choice.num_sequences - 1) /
                                   choice.num_sequences * (of.num_kv_heads / choice.kv_heads);
    if (square_bytes > scratch_bytes || num_calls > kMaxCalls) continue;
    BackwardCut cut{.kv_heads_each = choice.kv_heads, .parts = {}, .scratch_bytes = 0};
    const auto step = static_cast<std::size_t>(choice.num_sequences);
    for (std::size_t first = 0; first < documents.size(); first += step) {
      const std::size_t past = std::min(first + step, documents.size());
      std::vector<PackedDocument> part(documents.begin() + static_cast<std::ptrdiff_t>(first),
                                       documents.begin() + static_cast<std::ptrdiff_t>(past));
      const int before = part.front().packed_first;
      for (PackedDocument& document : part) document.packed_first -= before;
      CudnnAttentionShape shape{.num_sequences = choice.num_sequences,
                                .num_heads = choice.kv_heads * group,
                                .num_kv_heads = choice.kv_heads,
                                .head_dim = of.head_dim,
                                .q_row = choice.kv_heads * group * of.head_dim,
                                .k_row = choice.kv_heads * of.head_dim,
                                .v_row = choice.kv_heads * of.head_dim,
                                .out_row = args.out.shape()[1],
                                .dout_row = args.dout.shape()[1]};
      const CudnnPlan* const plan = plan_for_documents(shape, of, part, args.q.rows.shape()[0]);
      if (plan == nullptr) return std::nullopt;
      Slices slices;
      cut.parts.emplace_back(shape, plan, std::move(part), slices);
      cut.scratch_bytes = std::max(cut.scratch_bytes, slices.size());
    }
    if (cut.scratch_bytes <= scratch_bytes) return cut;
  }
  why_not_ = fmt::format("the backward of {} tokens does not fit the {} of scratch memory", longest(documents),
                         format_bytes(scratch_bytes));
  return std::nullopt;
}

void CudnnAttention::put_part(CudaStream& stream, const AttentionBackward& args, const BackwardPart& part,
                              std::int64_t first_kv_head, std::byte* scratch) {
  const CudnnAttentionShape& shape = part.shape;
  const std::int64_t q_col = first_kv_head * (shape.num_heads / shape.num_kv_heads) * shape.head_dim;
  const std::int64_t k_col = first_kv_head * shape.head_dim;
  const auto columns = [&](const HeadColumns& of, std::int64_t col, OffsetList::Rows at, std::uint64_t packed,
                           std::int64_t num_cols) {
    return PackedColumns{.rows = first_head(of.rows, of.first_col + col),
                         .row_elements = of.rows.shape()[1],
                         .at = at,
                         .packed = scratch + packed,
                         .num_cols = num_cols};
  };
  pack(stream, part.documents, columns(args.q, q_col, OffsetList::kQueries, part.q, shape.q_row));
  pack(stream, part.documents, columns(args.k, k_col, OffsetList::kKeys, part.k, shape.k_row));
  pack(stream, part.documents, columns(args.v, k_col, OffsetList::kKeys, part.v, shape.v_row));
  const std::int64_t num_tokens = args.q.rows.shape()[0];
  auto* const of_heads =
      reinterpret_cast<float*>(args.log_sum_exp.bytes().data()) + q_col / shape.head_dim * num_tokens;
  auto* const statistics = shape.is_whole ? of_heads : reinterpret_cast<float*>(scratch + part.statistics);
  if (!shape.is_whole) {
    pack(stream, part.documents,
         PackedStatistics{.of_heads = of_heads,
                          .num_tokens = num_tokens,
                          .packed = statistics,
                          .num_heads = static_cast<int>(shape.num_heads)});
  }

  std::vector<CudnnBinding> bindings = {{kQ, scratch + part.q},
                                        {kK, scratch + part.k},
                                        {kV, scratch + part.v},
                                        {kOut, first_head(args.out, q_col)},
                                        {kStatistics, statistics},
                                        {kDout, first_head(args.dout, q_col)},
                                        {kDq, scratch + part.dq},
                                        {kDk, scratch + part.dk},
                                        {kDv, scratch + part.dv},
                                        {kDelta, scratch + part.delta},
                                        {kOne, &kUnit}};
  if (shape.has_full_gradients()) {
    bindings.push_back({kFullDk, scratch + part.full_dk});
    bindings.push_back({kFullDv, scratch + part.full_dv});
  }
  if (!shape.is_whole) {
    bind_lists(stream, part.documents, part.lists, scratch,
               {{kQOffsets, OffsetList::kPacked, shape.q_row},
                {kKOffsets, OffsetList::kPacked, shape.k_row},
                {kVOffsets, OffsetList::kPacked, shape.v_row},
                {kOutOffsets, OffsetList::kQueries, shape.out_row},
                {kDoutOffsets, OffsetList::kQueries, shape.dout_row},
                {kStatisticsOffsets, OffsetList::kPacked, shape.num_heads}},
               bindings);
  }
  const float scale = args.shape.scale;
  const auto window = static_cast<float>(shape.window);
  bind_scalars(shape, scale, window, bindings);
  part.plan->run(bindings, scratch + part.workspace);

  unpack(stream, part.documents, columns(args.dq, q_col, OffsetList::kQueries, part.dq, shape.q_row));
  unpack(stream, part.documents, columns(args.dk, k_col, OffsetList::kKeys, part.dk, shape.k_row));
  unpack(stream, part.documents, columns(args.dv, k_col, OffsetList::kKeys, part.dv, shape.v_row));
}

bool CudnnAttention::backward(CudaStream& stream, const AttentionBackward& args) {
  if (!suits(args.dq) || !suits(args.dk) || !suits(args.dv)) return false;
  const std::vector<PackedDocument> documents = documents_of(args);
  if (documents.empty()) return false;
  const std::scoped_lock lock(mutex_);
  if (!open()) return false;
  const CudnnRequest packed{.is_backward = true, .is_packed = true, .head_dim = args.shape.head_dim};
  const CudnnRequest whole{.is_backward = true, .is_packed = false, .head_dim = args.shape.head_dim};
  if (const std::string why_not = rules_.why_not(packed); !why_not.empty() && !rules_.why_not(whole).empty()) {
    why_not_ = why_not;
    return false;
  }
  const std::optional<BackwardCut> cut = cut_backward(args, documents, stream.device().scratch().size_bytes());
  if (!cut) return false;
  const Scratch scratch = stream.scratch(cut->scratch_bytes, "the backward of attention");
  library_->require(library_->set_stream(library_->handle(), stream.handle()), "cudnnSetStream");
  for (std::int64_t head = 0; head < args.shape.num_kv_heads; head += cut->kv_heads_each) {
    for (const BackwardPart& part : cut->parts) put_part(stream, args, part, head, scratch.bytes().data());
  }
  return true;
}

}  // namespace sluice::cuda
