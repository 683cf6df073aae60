// SPDX-License-Identifier: Apache-2.0
#include "model/checkpoint_slices.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "model/convert.h"
#include "model/stored_nf4.h"

namespace sluice {
namespace {

constexpr std::uint64_t kConvertElements = 256 * kKiB;

// Tensors that older exporters left in checkpoints: tables that follow from the config, or a tied head.
bool is_redundant(std::string_view name, const ModelDescription& model) {
  if (name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".masked_bias")) return true;
  return model.arch.tied_head && name == model.names.head + ".weight";
}

std::uint64_t fixed_gap_end(const SliceLayout& layout, std::size_t parameter_idx) {
  const auto& parameters = layout.parameters();
  return parameter_idx + 1 < parameters.size() ? parameters[parameter_idx + 1].offset : layout.num_elements();
}

// Of a matrix that is stored packed.
const TensorPiece& one_piece(const TensorPlacement& placement) {
  CHECK(placement.pieces.size() == 1, "a description with other orders of rows is refused");
  return placement.pieces.front();
}

}  // namespace

CheckpointSlices::CheckpointSlices(const Checkpoint& checkpoint, const ModelDescription& model)
    : checkpoint_(checkpoint), model_(model) {
  for (std::size_t slice_idx = 0; slice_idx < num_slices(model.arch); ++slice_idx) {
    for (const TensorPlacement& placement : place_tensors(model, slice_idx)) {
      if (is_stored_packed(placement)) {
        require_stored_nf4(checkpoint, placement);
        continue;
      }
      const TensorInfo& tensor = checkpoint.require(placement.name);
      if (tensor.shape != placement.shape) {
        throw FormatError(fmt::format("{}: tensor {} has shape {}, but config.json asks for {}",
                                      checkpoint.shard_path(tensor), tensor.name, tensor.shape.text(),
                                      placement.shape.text()));
      }
      const DType dtype = checkpoint.require_dtype(tensor);
      if (!can_convert(DType::kF32, dtype)) {
        throw FormatError(fmt::format("{}: tensor {} is {}; weights must be F32, BF16 or F16",
                                      checkpoint.shard_path(tensor), tensor.name, name(dtype)));
      }
    }
  }
  require_nothing_else();
}

// A tensor that nobody reads means that the config describes another model: its numbers would be wrong without a word.
void CheckpointSlices::require_nothing_else() const {
  std::set<std::string> expected;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(model_.arch); ++slice_idx) {
    for (TensorPlacement& placement : place_tensors(model_, slice_idx)) {
      if (is_stored_packed(placement)) {
        for (std::string& name : stored_nf4_names(placement.name)) expected.insert(std::move(name));
      } else {
        expected.insert(std::move(placement.name));
      }
    }
  }
  for (const TensorInfo& tensor : checkpoint_.tensors()) {
    if (expected.contains(tensor.name) || is_redundant(tensor.name, model_)) continue;
    throw FormatError(
        fmt::format("{}: tensor {} has no place in the model that config.json describes; do the two belong together?",
                    checkpoint_.shard_path(tensor), tensor.name));
  }
}

void CheckpointSlices::read(std::size_t slice_idx, DType dtype, std::span<std::byte> into) const {
  const SliceLayout layout = slice_layout(model_.arch, slice_idx);
  CHECK(into.size() >= layout.size_bytes(dtype), "room for the slice");
  const std::uint64_t element_bytes = size_bytes(dtype);
  for (std::size_t idx = 0; idx < layout.parameters().size(); ++idx) {
    const Parameter& parameter = layout.parameters()[idx];
    const std::uint64_t end = parameter.offset + static_cast<std::uint64_t>(parameter.shape.num_elements());
    std::memset(into.data() + end * element_bytes, 0, (fixed_gap_end(layout, idx) - end) * element_bytes);
  }
  for (const TensorPlacement& placement : place_tensors(model_, slice_idx)) {
    const auto target = [&](const TensorPiece& piece) {
      return into.subspan(piece.slice_offset * element_bytes, piece.count * element_bytes);
    };
    if (!is_stored_packed(placement)) {
      for (const TensorPiece& piece : placement.pieces) read_plain(placement, piece, dtype, target(piece));
      continue;
    }
    unpack_stored_nf4(checkpoint_, placement.name, TensorView(target(one_piece(placement)), dtype, placement.shape));
  }
}

bool CheckpointSlices::is_stored_packed(const TensorPlacement& placement) const {
  return has_packed_blocks() && is_block_matrix(placement.param);
}

void CheckpointSlices::read_plain(const TensorPlacement& placement, const TensorPiece& piece, DType dtype,
                                  std::span<std::byte> into) const {
  const TensorInfo& tensor = checkpoint_.require(placement.name);
  const DType from = checkpoint_.require_dtype(tensor);
  const std::uint64_t from_bytes = size_bytes(from);
  if (from == dtype) {
    checkpoint_.read(tensor, piece.tensor_offset * from_bytes, into);
    return;
  }
  const std::uint64_t element_bytes = size_bytes(dtype);
  std::vector<std::byte> buffer(std::min(piece.count, kConvertElements) * from_bytes);
  for (std::uint64_t at = 0; at < piece.count; at += kConvertElements) {
    const std::uint64_t count = std::min(kConvertElements, piece.count - at);
    const auto part = std::span(buffer).first(count * from_bytes);
    checkpoint_.read(tensor, (piece.tensor_offset + at) * from_bytes, part);
    const bool known = convert_elements(into.subspan(at * element_bytes, count * element_bytes), dtype, part, from);
    CHECK(known, "the constructor has checked the types");
  }
}

void CheckpointSlices::read_packed(std::size_t slice_idx, const PackedBlock& block, DType dtype,
                                   std::span<std::byte> into) const {
  CHECK(has_packed_blocks() && into.size() >= block.size_bytes(), "a block in NF4, and room for it");
  const SliceLayout layout = slice_layout(model_.arch, slice_idx);
  std::memset(into.data(), 0, into.size());
  for (const TensorPlacement& placement : place_tensors(model_, slice_idx)) {
    if (is_stored_packed(placement)) {
      const std::uint64_t first = one_piece(placement).slice_offset - layout.find(placement.param)->offset;
      const auto first_row = static_cast<std::int64_t>(first) / placement.shape[1];
      read_stored_nf4(checkpoint_, placement.name, block.nf4(into, placement.param, first_row));
      continue;
    }
    const std::span<std::byte> plain = block.plain(into, placement.param).bytes();
    for (const TensorPiece& piece : placement.pieces) {
      const std::uint64_t at = piece.slice_offset - layout.find(placement.param)->offset;
      read_plain(placement, piece, dtype, plain.subspan(at * size_bytes(dtype), piece.count * size_bytes(dtype)));
    }
  }
}

std::vector<PlannedTensor> plan_tensors(const ModelDescription& model, DType dtype) {
  std::vector<PlannedTensor> tensors;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(model.arch); ++slice_idx) {
    for (TensorPlacement& placement : place_tensors(model, slice_idx)) {
      if (!begins_here(placement)) continue;
      if (model.stored == BaseFormat::kNf4 && is_block_matrix(placement.param)) {
        for (PlannedTensor& tensor : plan_stored_nf4(placement.name, placement.shape)) {
          tensors.push_back(std::move(tensor));
        }
        continue;
      }
      tensors.push_back({.name = std::move(placement.name), .dtype = dtype, .shape = placement.shape});
    }
  }
  return tensors;
}

void write_slice(CheckpointWriter& writer, const ModelDescription& model, std::size_t slice_idx,
                 std::span<const std::byte> slice, DType from, DType to) {
  CHECK(model.stored == BaseFormat::kPlain, "slices are written as they are");
  const std::uint64_t from_bytes = size_bytes(from);
  std::vector<std::byte> buffer;
  for (const TensorPlacement& placement : place_tensors(model, slice_idx)) {
    CHECK(writer.next_tensor() != nullptr && writer.next_tensor()->name == placement.name, "slices come in order");
    for (const TensorPiece& piece : placement.pieces) {
      const auto source = slice.subspan(piece.slice_offset * from_bytes, piece.count * from_bytes);
      if (from == to) {
        writer.write(source);
        continue;
      }
      buffer.resize(std::min(piece.count, kConvertElements) * size_bytes(to));
      for (std::uint64_t at = 0; at < piece.count; at += kConvertElements) {
        const std::uint64_t count = std::min(kConvertElements, piece.count - at);
        const auto part = std::span(buffer).first(count * size_bytes(to));
        const bool known = convert_elements(part, to, source.subspan(at * from_bytes, count * from_bytes), from);
        CHECK(known, "slices are f32 or bf16");
        writer.write(part);
      }
    }
  }
}

}  // namespace sluice
