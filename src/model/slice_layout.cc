// SPDX-License-Identifier: Apache-2.0
#include "model/slice_layout.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/units.h"

namespace sluice {
namespace {

void add_norm(SliceLayout& layout, const Architecture& arch, Param weight, Param bias) {
  layout.add(weight, {arch.hidden});
  if (arch.norm == NormKind::kLayer) layout.add(bias, {arch.hidden});
}

SliceLayout one_parameter(Param param, Shape shape) {
  SliceLayout layout;
  layout.add(param, shape);
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

SliceLayout final_norm_layout(const Architecture& arch) {
  SliceLayout layout;
  add_norm(layout, arch, Param::kFinalNorm, Param::kFinalNormBias);
  return layout;
}

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }
std::int64_t num_before_blocks(const Architecture& arch) {
  return arch.num_vocab_ranges() + (arch.learned_positions > 0 ? 1 : 0);
}

}  // namespace

std::optional<Projection> projection_of(Param param) {
  switch (param) {
    case Param::kQkv:
      return Projection::kQkv;
    case Param::kOut:
      return Projection::kOut;
    case Param::kUp:
      return Projection::kUp;
    case Param::kDown:
      return Projection::kDown;
    default:
      return std::nullopt;
  }
}

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

VocabRange vocab_range(const Architecture& arch, std::int64_t range_idx) {
  CHECK(range_idx >= 0 && range_idx < arch.num_vocab_ranges(), "a range of the vocabulary");
  const std::int64_t first = range_idx * arch.vocab_range_rows;
  return {.first = first, .count = std::min(arch.vocab_range_rows, arch.vocab - first)};
}

std::size_t num_slices(const Architecture& arch) {
  return final_norm_slice(arch) + 1 + (arch.tied_head ? 0 : index(arch.num_vocab_ranges()));
}

std::size_t embedding_slice(std::int64_t range_idx) { return index(range_idx); }

std::size_t positions_slice(const Architecture& arch) {
  CHECK(arch.learned_positions > 0, "positions are learned");
  return index(arch.num_vocab_ranges());
}

std::size_t block_slice(const Architecture& arch, std::int64_t layer_idx) {
  return index(num_before_blocks(arch) + layer_idx);
}

std::size_t final_norm_slice(const Architecture& arch) { return index(num_before_blocks(arch) + arch.num_layers()); }

std::size_t head_slice(const Architecture& arch, std::int64_t range_idx) {
  return arch.tied_head ? embedding_slice(range_idx) : final_norm_slice(arch) + 1 + index(range_idx);
}

SliceId slice_id(const Architecture& arch, std::size_t slice_idx) {
  CHECK(slice_idx < num_slices(arch), "a slice of the model");
  const auto at = static_cast<std::int64_t>(slice_idx);
  if (at < arch.num_vocab_ranges()) return {SliceKind::kEmbedding, at};
  if (at < num_before_blocks(arch)) return {SliceKind::kPositions, 0};
  if (slice_idx < final_norm_slice(arch)) return {SliceKind::kBlock, at - num_before_blocks(arch)};
  if (slice_idx == final_norm_slice(arch)) return {SliceKind::kFinalNorm, 0};
  return {SliceKind::kHead, static_cast<std::int64_t>(slice_idx - final_norm_slice(arch) - 1)};
}

std::string slice_name(const Architecture& arch, std::size_t slice_idx) {
  const SliceId id = slice_id(arch, slice_idx);
  switch (id.kind) {
    case SliceKind::kEmbedding:
      return fmt::format("embedding.{}", id.part);
    case SliceKind::kPositions:
      return "positions";
    case SliceKind::kBlock:
      return fmt::format("block.{}", id.part);
    case SliceKind::kFinalNorm:
      return "norm";
    case SliceKind::kHead:
      return fmt::format("head.{}", id.part);
  }
  CHECK(false, "every kind has a name");
}

SliceLayout slice_layout(const Architecture& arch, std::size_t slice_idx) {
  const SliceId id = slice_id(arch, slice_idx);
  switch (id.kind) {
    case SliceKind::kEmbedding:
      return one_parameter(Param::kEmbedding, {vocab_range(arch, id.part).count, arch.hidden});
    case SliceKind::kPositions:
      return one_parameter(Param::kPositions, {arch.learned_positions, arch.hidden});
    case SliceKind::kBlock:
      return block_layout(arch);
    case SliceKind::kFinalNorm:
      return final_norm_layout(arch);
    case SliceKind::kHead:
      return one_parameter(Param::kHead, {vocab_range(arch, id.part).count, arch.hidden});
  }
  CHECK(false, "every kind has a layout");
}

std::uint64_t count_parameters(const Architecture& arch) {
  const auto matrix = static_cast<std::uint64_t>(arch.vocab) * static_cast<std::uint64_t>(arch.hidden);
  const auto positions = static_cast<std::uint64_t>(arch.learned_positions) * static_cast<std::uint64_t>(arch.hidden);
  return matrix * (arch.tied_head ? 1 : 2) + positions + arch.layers.size() * block_layout(arch).num_parameters() +
         final_norm_layout(arch).num_parameters();
}

}  // namespace sluice
