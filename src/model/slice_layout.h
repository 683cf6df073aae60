// SPDX-License-Identifier: Apache-2.0
// How the parameters of a slice lie in its one run of memory. A model's slices are, in the order the forward meets
// them: ranges of the embedding's rows, learned positions where there are any, the blocks, the final norm, and ranges
// of the head's rows where it is not tied. Offsets are in elements, so weights, gradients and moments of any dtype
// share a layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"
#include "tensor/tensor_view.h"

namespace sluice {

enum class Param : std::uint8_t {
  kEmbedding,
  kPositions,
  kAttentionNorm,
  kAttentionNormBias,
  kQkv,  // (heads of q, then of k, then of v; hidden)
  kQkvBias,
  kQNorm,
  kKNorm,
  kOut,
  kOutBias,
  kNormAfterAttention,
  kMlpNorm,
  kMlpNormBias,
  kUp,  // gate, then up, where gated
  kUpBias,
  kDown,
  kDownBias,
  kNormAfterMlp,
  kFinalNorm,
  kFinalNormBias,
  kHead,
  kAdapterA,  // of a block's adapter: adapter_layout.h
  kAdapterB,
};

// The matrices of a block; none for what is not one.
std::optional<Projection> projection_of(Param param);
inline bool is_block_matrix(Param param) { return projection_of(param).has_value(); }

struct Parameter {
  Param param = Param::kEmbedding;
  Shape shape;
  std::uint64_t offset = 0;  // elements from the slice's start; a multiple of kParameterAlignment
};

// Elements: whole blocks of 8-bit moments, which then never have two parameters.
inline constexpr std::uint64_t kParameterAlignment = 256;

class SliceLayout {
 public:
  void add(Param param, Shape shape);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Parameter* find(Param param) const;                     // null where the slice has none
  std::uint64_t num_elements() const { return num_elements_; }  // with the gaps between parameters
  std::uint64_t num_parameters() const;                         // without
  std::uint64_t size_bytes(DType dtype) const;

  // The parameter in memory laid out so; default-constructed where the slice has none.
  TensorView view(std::span<std::byte> slice, DType dtype, Param param) const;

 private:
  std::vector<Parameter> parameters_;
  std::uint64_t num_elements_ = 0;
};

struct VocabRange {
  std::int64_t first = 0;  // id
  std::int64_t count = 0;
};
VocabRange vocab_range(const Architecture& arch, std::int64_t range_idx);

enum class SliceKind : std::uint8_t { kEmbedding, kPositions, kBlock, kFinalNorm, kHead };
struct SliceId {
  SliceKind kind = SliceKind::kEmbedding;
  std::int64_t part = 0;  // the range of the vocabulary, or the layer
};
SliceId slice_id(const Architecture& arch, std::size_t slice_idx);

std::size_t num_slices(const Architecture& arch);
std::size_t embedding_slice(std::int64_t range_idx);
std::size_t positions_slice(const Architecture& arch);  // a bug where there are none
std::size_t block_slice(const Architecture& arch, std::int64_t layer_idx);
std::size_t final_norm_slice(const Architecture& arch);
std::size_t head_slice(const Architecture& arch, std::int64_t range_idx);  // the embedding's where it is tied
std::string slice_name(const Architecture& arch, std::size_t slice_idx);   // "embedding.0", "block.7", "norm"

SliceLayout slice_layout(const Architecture& arch, std::size_t slice_idx);
std::uint64_t count_parameters(const Architecture& arch);

}  // namespace sluice
