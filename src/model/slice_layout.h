// SPDX-License-Identifier: Apache-2.0
// How the parameters of a slice lie in its one run of memory. A model is 2 + layers slices: the embedding, each block,
// the head. Offsets are in elements, so weights, gradients and moments of any dtype share a layout.
#pragma once

#include <cstddef>
#include <cstdint>
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
};

struct Parameter {
  Param param = Param::kEmbedding;
  Shape shape;
  std::uint64_t offset = 0;  // elements from the slice's start; a multiple of kParameterAlignment
};

inline constexpr std::uint64_t kParameterAlignment = 64;  // elements

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

// Slices are numbered in the order the forward meets them.
inline constexpr std::size_t kEmbeddingSlice = 0;
std::size_t num_slices(const Architecture& arch);
std::size_t block_slice(std::int64_t layer_idx);
std::size_t head_slice(const Architecture& arch);
std::string slice_name(const Architecture& arch, std::size_t slice_idx);  // "embedding", "block.7", "head"

SliceLayout slice_layout(const Architecture& arch, std::size_t slice_idx);
std::uint64_t count_parameters(const Architecture& arch);

}  // namespace sluice
