// SPDX-License-Identifier: Apache-2.0
#include "model/slice_layout.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/units.h"

namespace sluice {
namespace {

void add_norm(SliceLayout& layout, const Architecture& arch, Param weight, Param bias) {
  layout.add(weight, {arch.hidden});
  if (arch.norm == NormKind::kLayer) layout.add(bias, {arch.hidden});
}

SliceLayout embedding_layout(const Architecture& arch) {
  SliceLayout layout;
  layout.add(Param::kEmbedding, {arch.vocab, arch.hidden});
  if (arch.learned_positions > 0) layout.add(Param::kPositions, {arch.learned_positions, arch.hidden});
  return layout;
}

SliceLayout block_layout(const Architecture& arch) {
  SliceLayout layout;
  add_norm(layout, arch, Param::kAttentionNorm, Param::kAttentionNormBias);
  layout.add(Param::kQkv, {arch.qkv_width(), arch.hidden});
  if (arch.qkv_bias == Biases::kPresent) layout.add(Param::kQkvBias, {arch.qkv_width()});
  if (arch.qk_norm) {
    layout.add(Param::kQNorm, {arch.head_dim});
    layout.add(Param::kKNorm, {arch.head_dim});
  }
  layout.add(Param::kOut, {arch.hidden, arch.q_width()});
  if (arch.out_bias == Biases::kPresent) layout.add(Param::kOutBias, {arch.hidden});
  if (arch.norm_after_attention) layout.add(Param::kNormAfterAttention, {arch.hidden});
  if (arch.residual != Residual::kParallelShared) add_norm(layout, arch, Param::kMlpNorm, Param::kMlpNormBias);
  layout.add(Param::kUp, {arch.up_width(), arch.hidden});
  if (arch.mlp_bias == Biases::kPresent) layout.add(Param::kUpBias, {arch.up_width()});
  layout.add(Param::kDown, {arch.hidden, arch.intermediate});
  if (arch.mlp_bias == Biases::kPresent) layout.add(Param::kDownBias, {arch.hidden});
  if (arch.norm_after_mlp) layout.add(Param::kNormAfterMlp, {arch.hidden});
  return layout;
}

SliceLayout head_layout(const Architecture& arch) {
  SliceLayout layout;
  add_norm(layout, arch, Param::kFinalNorm, Param::kFinalNormBias);
  if (!arch.tied_head) layout.add(Param::kHead, {arch.vocab, arch.hidden});
  return layout;
}

}  // namespace

void SliceLayout::add(Param param, Shape shape) {
  parameters_.push_back({param, shape, num_elements_});
  num_elements_ += round_up(static_cast<std::uint64_t>(shape.num_elements()), kParameterAlignment);
}

const Parameter* SliceLayout::find(Param param) const {
  for (const Parameter& parameter : parameters_) {
    if (parameter.param == param) return &parameter;
  }
  return nullptr;
}

std::uint64_t SliceLayout::num_parameters() const {
  std::uint64_t count = 0;
  for (const Parameter& parameter : parameters_) count += static_cast<std::uint64_t>(parameter.shape.num_elements());
  return count;
}

std::uint64_t SliceLayout::size_bytes(DType dtype) const { return num_elements_ * sluice::size_bytes(dtype); }

TensorView SliceLayout::view(std::span<std::byte> slice, DType dtype, Param param) const {
  const Parameter* parameter = find(param);
  if (parameter == nullptr) return {};
  const std::uint64_t element_bytes = sluice::size_bytes(dtype);
  const std::uint64_t count = static_cast<std::uint64_t>(parameter->shape.num_elements());
  return {slice.subspan(parameter->offset * element_bytes, count * element_bytes), dtype, parameter->shape};
}

std::size_t num_slices(const Architecture& arch) { return arch.layers.size() + 2; }
std::size_t block_slice(std::int64_t layer_idx) { return static_cast<std::size_t>(layer_idx) + 1; }
std::size_t head_slice(const Architecture& arch) { return arch.layers.size() + 1; }

std::string slice_name(const Architecture& arch, std::size_t slice_idx) {
  if (slice_idx == kEmbeddingSlice) return "embedding";
  if (slice_idx == head_slice(arch)) return "head";
  return fmt::format("block.{}", slice_idx - 1);
}

SliceLayout slice_layout(const Architecture& arch, std::size_t slice_idx) {
  CHECK(slice_idx < num_slices(arch), "a slice of the model");
  if (slice_idx == kEmbeddingSlice) return embedding_layout(arch);
  if (slice_idx == head_slice(arch)) return head_layout(arch);
  return block_layout(arch);
}

std::uint64_t count_parameters(const Architecture& arch) {
  return embedding_layout(arch).num_parameters() + arch.layers.size() * block_layout(arch).num_parameters() +
         head_layout(arch).num_parameters();
}

}  // namespace sluice
