// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn_attention.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/units.h"
#include "device/cuda/cuda_device.h"
#include "ops/cuda/attention_kernels.h"

namespace sluice::cuda {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr float kUnit = 1;
constexpr std::uint64_t kElementBytes = 2;
constexpr std::uint64_t kSliceAlignment = 256;
// Of a backward that is cut small: beyond, launches take longer than kernels of our own.
constexpr std::int64_t kMaxCalls = 64;

// Lengths come in quarters of powers of two, so that few plans serve all.
std::int64_t rounded_tokens(std::int64_t num_tokens) {
  const auto below = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(num_tokens)));
  const std::int64_t step = std::max<std::int64_t>(128, below / 4);
  return (num_tokens + step - 1) / step * step;
}

std::int64_t rounded_sequences(std::size_t count) {
  const std::size_t power = std::bit_ceil(count);
  const std::size_t less = power / 4 * 3;
  return static_cast<std::int64_t>(count <= less ? less : power);
}

int longest(const std::vector<PackedDocument>& documents) {
  int most = 0;
  for (const PackedDocument& document : documents) most = std::max(most, document.count);
  return most;
}

std::int64_t total(const std::vector<PackedDocument>& documents) {
  return documents.back().packed_first + documents.back().count;
}

std::byte* first_head(const TensorView& rows, std::int64_t first_col) {
  return rows.bytes().data() + first_col * static_cast<std::int64_t>(kElementBytes);
}

bool suits(const HeadColumns& in) {
  return in.rows.dtype() == DType::kBF16 && in.rows.shape()[1] % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(first_head(in.rows, in.first_col)) % 16 == 0;
}

// cuDNN 9.14 takes the backward of wider heads and gives wrong numbers, NaN among them.
constexpr std::int64_t kMostBackwardHeadDim = 128;

// The segments as documents, in order and none of them empty; nothing where cuDNN cannot.
template <typename Args>
std::vector<PackedDocument> documents_of(const Args& args) {
  if (args.shape.soft_cap != 0 || !suits_tensor_cores(args)) return {};
  std::vector<PackedDocument> documents;
  std::int64_t q_past = 0;
  std::int64_t k_past = 0;
  std::int64_t packed = 0;
  for (const AttentionSegment& segment : args.segments) {
    if (segment.q_count != segment.k_count || segment.q_first < q_past || segment.k_first < k_past) return {};
    if (segment.q_count == 0) continue;
    q_past = segment.q_first + segment.q_count;
    k_past = segment.k_first + segment.k_count;
    if (std::max(q_past, k_past) > std::numeric_limits<std::int32_t>::max()) return {};
    documents.push_back({.q_first = static_cast<int>(segment.q_first),
                         .k_first = static_cast<int>(segment.k_first),
                         .count = static_cast<int>(segment.q_count),
                         .packed_first = static_cast<int>(packed)});
    packed += segment.q_count;
  }
  return documents;
}

// A window that every key is in is none.
std::int64_t window_of(const AttentionShape& shape, std::int64_t num_tokens) {
  return shape.window >= num_tokens ? 0 : shape.window;
}

// Scratch memory, slice after slice.
class Slices {
 public:
  std::uint64_t take(std::uint64_t size) {
    const std::uint64_t at = size_;
    size_ += round_up(size, kSliceAlignment);
    return at;
  }
  std::uint64_t size() const { return size_; }

 private:
  std::uint64_t size_ = 0;
};

// Where lengths and offsets are.
struct ListSlices {
  ListSlices(Slices& slices, std::int64_t sequences)
      : num_sequences(sequences), lengths(slices.take(static_cast<std::uint64_t>(sequences) * sizeof(std::int32_t))) {
    for (std::uint64_t& at : offsets)
      at = slices.take(static_cast<std::uint64_t>(sequences + 1) * sizeof(std::int64_t));
  }

  std::int64_t num_sequences;
  std::uint64_t lengths;
  std::uint64_t offsets[DocumentLists::kMaxLists];
};

struct NamedOffsets {
  CudnnAttentionId id;
  OffsetList::Rows rows;
  std::int64_t row_elements;
};

// Writes the lists and names them to the plan.
void bind_lists(CudaStream& stream, const std::vector<PackedDocument>& documents, const ListSlices& slices,
                std::byte* scratch, std::initializer_list<NamedOffsets> offsets, std::vector<CudnnBinding>& bindings) {
  DocumentLists lists{.num_sequences = static_cast<int>(slices.num_sequences),
                      .lengths = reinterpret_cast<std::int32_t*>(scratch + slices.lengths),
                      .offsets = {}};
  bindings.push_back({kLengths, lists.lengths});
  bindings.push_back({kKeyLengths, lists.lengths});
  std::size_t idx = 0;
  for (const NamedOffsets& named : offsets) {
    auto* const to = reinterpret_cast<std::int64_t*>(scratch + slices.offsets[idx]);
    lists.offsets[idx++] = {.to = to, .rows = named.rows, .row_elements = named.row_elements};
    bindings.push_back({named.id, to});
  }
  write_lists(stream, documents, lists);
}

// Scalars of both graphs; `scale` and `window` live until the plan was put on the stream.
void bind_scalars(const CudnnAttentionShape& shape, const float& scale, const float& window,
                  std::vector<CudnnBinding>& bindings) {
  bindings.push_back({kScale, &scale});
  if (kMasksPadding) bindings.push_back({kHiddenPadding, &kHidden});
  bindings.push_back({kHiddenFuture, &kHidden});
  if (shape.window != 0) {
    bindings.push_back({kHiddenPast, &kHidden});
    bindings.push_back({kWindow, &window});
  }
}

}  // namespace

// ---- Plans ----

bool CudnnAttention::open() {
  if (!was_opened_) {
    was_opened_ = true;
    try {
      library_ = std::make_unique<Cudnn>();
    } catch (const DeviceError& error) {
      why_not_ = error.what();
    }
  }
  return library_ != nullptr;
}

const CudnnPlan* CudnnAttention::plan_for(const CudnnAttentionShape& shape) {
  if (const auto found = plans_.find(shape); found != plans_.end()) return found->second.get();
  std::unique_ptr<CudnnPlan> plan;
  try {
    plan = shape.dout_row == 0 ? plan_attention_forward(*library_, shape) : plan_attention_backward(*library_, shape);
  } catch (const DeviceError& error) {
    why_not_ = error.what();
  }
  return plans_.emplace(shape, std::move(plan)).first->second.get();
}

std::string CudnnAttention::describe() const {
  const std::scoped_lock lock(mutex_);
  const std::string version = library_ ? fmt::format("cuDNN {}, {} plans", library_->version(), plans_.size())
                                       : std::string(was_opened_ ? "no cuDNN" : "cuDNN not asked yet");
  return why_not_.empty() ? version : fmt::format("{} ({})", version, why_not_);
}

// ---- Forward ----

bool CudnnAttention::forward(CudaStream& stream, const AttentionForward& args) {
  const std::vector<PackedDocument> documents = documents_of(args);
  if (documents.empty()) return false;
  const std::scoped_lock lock(mutex_);
  if (!open()) return false;
  const std::int64_t num_tokens = rounded_tokens(longest(documents));
  const CudnnAttentionShape shape{.num_sequences = rounded_sequences(documents.size()),
                                  .num_tokens = num_tokens,
                                  .num_heads = args.shape.num_heads,
                                  .num_kv_heads = args.shape.num_kv_heads,
                                  .head_dim = args.shape.head_dim,
                                  .window = window_of(args.shape, num_tokens),
                                  .q_row = args.q.rows.shape()[1],
                                  .k_row = args.k.rows.shape()[1],
                                  .v_row = args.v.rows.shape()[1],
                                  .out_row = args.out.shape()[1]};
  const CudnnPlan* const plan = plan_for(shape);
  if (plan == nullptr) return false;

  Slices slices;
  const ListSlices lists(slices, shape.num_sequences);
  const std::uint64_t statistics_at =
      slices.take(static_cast<std::uint64_t>(total(documents) * shape.num_heads) * sizeof(float));
  const std::uint64_t workspace_at = slices.take(plan->workspace_bytes());
  if (slices.size() > stream.device().scratch().size_bytes()) return false;
  const Scratch scratch = stream.scratch(slices.size(), "the forward of attention");
  std::byte* const memory = scratch.bytes().data();

  std::vector<CudnnBinding> bindings = {{kQ, first_head(args.q.rows, args.q.first_col)},
                                        {kK, first_head(args.k.rows, args.k.first_col)},
                                        {kV, first_head(args.v.rows, args.v.first_col)},
                                        {kOut, args.out.bytes().data()},
                                        {kStatistics, memory + statistics_at}};
  bind_lists(stream, documents, lists, memory,
             {{kQOffsets, OffsetList::kQueries, shape.q_row},
              {kKOffsets, OffsetList::kKeys, shape.k_row},
              {kVOffsets, OffsetList::kKeys, shape.v_row},
              {kOutOffsets, OffsetList::kQueries, shape.out_row},
              {kStatisticsOffsets, OffsetList::kPacked, shape.num_heads}},
             bindings);
  const float scale = args.shape.scale;
  const auto window = static_cast<float>(shape.window);
  bind_scalars(shape, scale, window, bindings);
  library_->require(library_->set_stream(library_->handle(), stream.handle()), "cudnnSetStream");
  plan->run(bindings, memory + workspace_at);
  if (args.log_sum_exp.shape().rank() != 0) {
    unpack(stream, documents,
           PackedStatistics{.of_heads = reinterpret_cast<float*>(args.log_sum_exp.bytes().data()),
                            .num_tokens = args.q.rows.shape()[0],
                            .packed = reinterpret_cast<float*>(memory + statistics_at),
                            .num_heads = static_cast<int>(shape.num_heads)});
  }
  return true;
}

// ---- Backward ----

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
    full_dk = slices.take(shape.is_grouped() ? q_bytes : 0);
    full_dv = slices.take(shape.is_grouped() ? q_bytes : 0);
    statistics = slices.take(statistic_bytes);
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
      const std::int64_t num_tokens = rounded_tokens(longest(part));
      const CudnnAttentionShape shape{.num_sequences = choice.num_sequences,
                                      .num_tokens = num_tokens,
                                      .num_heads = choice.kv_heads * group,
                                      .num_kv_heads = choice.kv_heads,
                                      .head_dim = of.head_dim,
                                      .window = window_of(of, num_tokens),
                                      .q_row = choice.kv_heads * group * of.head_dim,
                                      .k_row = choice.kv_heads * of.head_dim,
                                      .v_row = choice.kv_heads * of.head_dim,
                                      .out_row = args.out.shape()[1],
                                      .dout_row = args.dout.shape()[1]};
      const CudnnPlan* const plan = plan_for(shape);
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
  pack(stream, part.documents,
       PackedStatistics{
           .of_heads = reinterpret_cast<float*>(args.log_sum_exp.bytes().data()) + q_col / shape.head_dim * num_tokens,
           .num_tokens = num_tokens,
           .packed = reinterpret_cast<float*>(scratch + part.statistics),
           .num_heads = static_cast<int>(shape.num_heads)});

  std::vector<CudnnBinding> bindings = {{kQ, scratch + part.q},
                                        {kK, scratch + part.k},
                                        {kV, scratch + part.v},
                                        {kOut, first_head(args.out, q_col)},
                                        {kStatistics, scratch + part.statistics},
                                        {kDout, first_head(args.dout, q_col)},
                                        {kDq, scratch + part.dq},
                                        {kDk, scratch + part.dk},
                                        {kDv, scratch + part.dv},
                                        {kDelta, scratch + part.delta},
                                        {kOne, &kUnit}};
  if (shape.is_grouped()) {
    bindings.push_back({kFullDk, scratch + part.full_dk});
    bindings.push_back({kFullDv, scratch + part.full_dv});
  }
  bind_lists(stream, part.documents, part.lists, scratch,
             {{kQOffsets, OffsetList::kPacked, shape.q_row},
              {kKOffsets, OffsetList::kPacked, shape.k_row},
              {kVOffsets, OffsetList::kPacked, shape.v_row},
              {kOutOffsets, OffsetList::kQueries, shape.out_row},
              {kDoutOffsets, OffsetList::kQueries, shape.dout_row},
              {kStatisticsOffsets, OffsetList::kPacked, shape.num_heads}},
             bindings);
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
  if (args.shape.head_dim > kMostBackwardHeadDim) return false;
  const std::vector<PackedDocument> documents = documents_of(args);
  if (documents.empty()) return false;
  const std::scoped_lock lock(mutex_);
  if (!open()) return false;
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
