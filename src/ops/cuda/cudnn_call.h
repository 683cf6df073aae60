// SPDX-License-Identifier: Apache-2.0
// What the forward and the backward of attention by cuDNN share: documents as it wants them, rounded shapes, slices of
// scratch memory, and what a plan is told by name.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "base/units.h"
#include "device/cuda/cuda_stream.h"
#include "ops/attention.h"
#include "ops/cuda/attention_packing.h"
#include "ops/cuda/cudnn_attention_graph.h"

namespace sluice::cuda {

inline constexpr float kHidden = -std::numeric_limits<float>::infinity();
inline constexpr float kUnit = 1;
inline constexpr std::uint64_t kElementBytes = 2;
inline constexpr std::uint64_t kSliceAlignment = 256;

// Lengths come in quarters of powers of two, so that few plans serve all.
inline std::int64_t rounded_tokens(std::int64_t num_tokens) {
  const auto below = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(num_tokens)));
  const std::int64_t step = std::max<std::int64_t>(128, below / 4);
  return (num_tokens + step - 1) / step * step;
}

inline std::int64_t rounded_sequences(std::size_t count) {
  const std::size_t power = std::bit_ceil(count);
  const std::size_t less = power / 4 * 3;
  return static_cast<std::int64_t>(count <= less ? less : power);
}

inline int longest(const std::vector<PackedDocument>& documents) {
  int most = 0;
  for (const PackedDocument& document : documents) most = std::max(most, document.count);
  return most;
}

inline std::int64_t total(const std::vector<PackedDocument>& documents) {
  return documents.back().packed_first + documents.back().count;
}

inline std::byte* first_head(const TensorView& rows, std::int64_t first_col) {
  return rows.bytes().data() + first_col * static_cast<std::int64_t>(kElementBytes);
}

inline bool suits(const HeadColumns& in) {
  return in.rows.dtype() == DType::kBF16 && in.rows.shape()[1] % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(first_head(in.rows, in.first_col)) % 16 == 0;
}

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

// Whether one document is all that the rows hold. Each length has plans of its own then, so that it is for long ones,
// and for one length of so many. It depends on the documents alone: no budget may change what is computed.
inline bool is_whole(const std::vector<PackedDocument>& documents, std::int64_t num_rows) {
  constexpr int kLeastTokens = 2048;
  constexpr int kStep = 32;
  return documents.size() == 1 && documents[0].k_first == 0 && documents[0].count == num_rows &&
         num_rows >= kLeastTokens && num_rows % kStep == 0;
}

// A window that every key is in is none.
inline std::int64_t window_of(const AttentionShape& shape, std::int64_t num_tokens) {
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
inline void bind_lists(CudaStream& stream, const std::vector<PackedDocument>& documents, const ListSlices& slices,
                       std::byte* scratch, std::initializer_list<NamedOffsets> offsets,
                       std::vector<CudnnBinding>& bindings) {
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
inline void bind_scalars(const CudnnAttentionShape& shape, const float& scale, const float& window,
                         std::vector<CudnnBinding>& bindings) {
  bindings.push_back({kScale, &scale});
  if (shape.masks_padding()) bindings.push_back({kHiddenPadding, &kHidden});
  bindings.push_back({kHiddenFuture, &kHidden});
  if (shape.window != 0) {
    bindings.push_back({kHiddenPast, &kHidden});
    bindings.push_back({kWindow, &window});
  }
}

}  // namespace sluice::cuda
