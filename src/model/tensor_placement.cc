// SPDX-License-Identifier: Apache-2.0
#include "model/tensor_placement.h"

#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace sluice {
namespace {

class Placer {
 public:
  Placer(const ModelDescription& model, std::size_t slice_idx)
      : arch_(model.arch),
        names_(model.names),
        id_(slice_id(model.arch, slice_idx)),
        layout_(slice_layout(model.arch, slice_idx)) {
    if (id_.kind == SliceKind::kBlock) prefix_ = fmt::format(fmt::runtime(names_.block_prefix), id_.part);
  }

  std::vector<TensorPlacement> take() { return std::move(placements_); }

  // A tensor that is the whole parameter.
  void whole(Param param, const std::string& name) {
    const Parameter* parameter = layout_.find(param);
    if (parameter == nullptr) return;
    placements_.push_back({.name = prefix_ + name,
                           .shape = parameter->shape,
                           .param = param,
                           .pieces = {{0, parameter->offset, elements(parameter->shape)}}});
  }

  // A tensor with a row for every id, of which the parameter is a range.
  void vocab_rows(Param param, const std::string& name) {
    const Parameter* parameter = layout_.find(param);
    if (parameter == nullptr) return;
    const Shape whole = {arch_.vocab, arch_.hidden};
    const std::uint64_t first = static_cast<std::uint64_t>(vocab_range(arch_, id_.part).first * arch_.hidden);
    placements_.push_back({.name = name,
                           .shape = whole,
                           .param = param,
                           .pieces = {{first, parameter->offset, elements(parameter->shape)}}});
  }

  void weight_and_bias(Param weight, Param bias, const std::string& name) {
    whole(weight, name + ".weight");
    whole(bias, name + ".bias");
  }

  // Tensors that are the parameter's rows, one after the other, in the numbers given.
  void stacked(Param param, const std::vector<std::string>& names, const std::vector<std::int64_t>& rows,
               const std::string& suffix) {
    const Parameter* parameter = layout_.find(param);
    if (parameter == nullptr) return;
    CHECK(names.size() == rows.size(), "a number of rows for each tensor");
    std::uint64_t slice_offset = parameter->offset;
    for (std::size_t idx = 0; idx < names.size(); ++idx) {
      const Shape shape = with_rows(parameter->shape, rows[idx]);
      placements_.push_back({.name = prefix_ + names[idx] + suffix,
                             .shape = shape,
                             .param = param,
                             .pieces = {{0, slice_offset, elements(shape)}}});
      slice_offset += elements(shape);
    }
  }

  void qkv(Param param, const std::string& suffix) {
    const Parameter* parameter = layout_.find(param);
    if (parameter == nullptr) return;
    if (names_.qkv.size() > 1) {
      stacked(param, names_.qkv, {arch_.q_width(), arch_.kv_width(), arch_.kv_width()}, suffix);
    } else if (names_.qkv_rows == QkvRows::kQThenKThenV) {
      whole(param, names_.qkv.front() + suffix);
    } else {
      by_kv_head(*parameter, suffix);
    }
  }

  void up(Param param, const std::string& suffix) {
    if (names_.up.size() > 1) {
      stacked(param, names_.up, {arch_.intermediate, arch_.intermediate}, suffix);
    } else {
      whole(param, names_.up.front() + suffix);
    }
  }

 private:
  static std::uint64_t elements(const Shape& shape) { return static_cast<std::uint64_t>(shape.num_elements()); }

  static Shape with_rows(const Shape& shape, std::int64_t rows) {
    return shape.rank() == 1 ? Shape{rows} : Shape{rows, shape[1]};
  }

  void by_kv_head(const Parameter& parameter, const std::string& suffix) {
    const std::uint64_t row = parameter.shape.rank() == 1 ? 1 : static_cast<std::uint64_t>(parameter.shape[1]);
    const auto head = static_cast<std::uint64_t>(arch_.head_dim) * row;
    const auto kv_heads = static_cast<std::uint64_t>(arch_.num_kv_heads);
    const std::uint64_t group = static_cast<std::uint64_t>(arch_.num_heads) / kv_heads;
    const std::uint64_t keys = parameter.offset + static_cast<std::uint64_t>(arch_.q_width()) * row;
    const std::uint64_t values = keys + static_cast<std::uint64_t>(arch_.kv_width()) * row;
    TensorPlacement placement{
        .name = prefix_ + names_.qkv.front() + suffix, .shape = parameter.shape, .param = parameter.param};
    std::uint64_t at = 0;
    const auto add = [&](std::uint64_t slice_offset, std::uint64_t count) {
      placement.pieces.push_back({at, slice_offset, count});
      at += count;
    };
    for (std::uint64_t idx = 0; idx < kv_heads; ++idx) {
      add(parameter.offset + idx * group * head, group * head);
      add(keys + idx * head, head);
      add(values + idx * head, head);
    }
    placements_.push_back(std::move(placement));
  }

  const Architecture& arch_;
  const TensorNames& names_;
  SliceId id_;
  SliceLayout layout_;
  std::string prefix_;
  std::vector<TensorPlacement> placements_;
};

}  // namespace

std::vector<TensorPlacement> place_tensors(const ModelDescription& model, std::size_t slice_idx) {
  const TensorNames& names = model.names;
  Placer placer(model, slice_idx);
  placer.vocab_rows(Param::kEmbedding, names.embedding + ".weight");
  placer.whole(Param::kPositions, names.positions + ".weight");
  placer.weight_and_bias(Param::kAttentionNorm, Param::kAttentionNormBias, names.attention_norm);
  placer.qkv(Param::kQkv, ".weight");
  placer.qkv(Param::kQkvBias, ".bias");
  placer.whole(Param::kQNorm, names.q_norm + ".weight");
  placer.whole(Param::kKNorm, names.k_norm + ".weight");
  placer.weight_and_bias(Param::kOut, Param::kOutBias, names.out);
  placer.whole(Param::kNormAfterAttention, names.norm_after_attention + ".weight");
  placer.weight_and_bias(Param::kMlpNorm, Param::kMlpNormBias, names.mlp_norm);
  placer.up(Param::kUp, ".weight");
  placer.up(Param::kUpBias, ".bias");
  placer.weight_and_bias(Param::kDown, Param::kDownBias, names.down);
  placer.whole(Param::kNormAfterMlp, names.norm_after_mlp + ".weight");
  placer.weight_and_bias(Param::kFinalNorm, Param::kFinalNormBias, names.final_norm);
  placer.vocab_rows(Param::kHead, names.head + ".weight");
  return placer.take();
}

}  // namespace sluice
