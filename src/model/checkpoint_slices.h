// SPDX-License-Identifier: Apache-2.0
// A Hugging Face checkpoint seen as slices: read piece by piece straight into a slice's memory, and written back the
// same way. Beyond the slice, memory is one small buffer where element types differ or a matrix is packed. Reading is
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "format/checkpoint.h"
#include "format/checkpoint_writer.h"
#include "model/description.h"
#include "model/packed_block.h"
#include "model/tensor_placement.h"

namespace sluice {

class CheckpointSlices {
 public:
  // Holds the checkpoint against what the description expects: throws FormatError that names the first tensor that is
  // missing, of another shape, of a type without meaning for weights, or unexpected. `checkpoint` outlives this.
  CheckpointSlices(const Checkpoint& checkpoint, const ModelDescription& model);

  // The slice's parameters in `dtype` (f32 or bf16), laid out as slice_layout() says; gaps become zero.
  void read(std::size_t slice_idx, DType dtype, std::span<std::byte> into) const;

  // Whether a block's matrices are in NF4 in the checkpoint, and such a block as it is; what stays plain becomes
  // `dtype`, as `block` was made for.
  bool has_packed_blocks() const { return model_.stored == BaseFormat::kNf4; }
  void read_packed(std::size_t slice_idx, const PackedBlock& block, DType dtype, std::span<std::byte> into) const;

 private:
  void require_nothing_else() const;
  bool is_stored_packed(const TensorPlacement& placement) const;
  void read_plain(const TensorPlacement& placement, const TensorPiece& piece, DType dtype,
                  std::span<std::byte> into) const;

  const Checkpoint& checkpoint_;
  const ModelDescription& model_;
};

// The tensors of the whole model in the order of its slices, all of one dtype but for those that are stored packed.
std::vector<PlannedTensor> plan_tensors(const ModelDescription& model, DType dtype);

// Writes the next slice's tensors; slices come in order. `slice` holds elements of `from` (f32 or bf16), the checkpoint
// those of `to`.
void write_slice(CheckpointWriter& writer, const ModelDescription& model, std::size_t slice_idx,
                 std::span<const std::byte> slice, DType from, DType to);

}  // namespace sluice
