// SPDX-License-Identifier: Apache-2.0
// Which elements of a checkpoint's tensors are which elements of a slice. The same table reads a checkpoint into slices
// and writes slices as a checkpoint; a family only names its tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/description.h"
#include "model/slice_layout.h"

namespace sluice {

struct TensorPiece {
  std::uint64_t tensor_offset = 0;  // elements
  std::uint64_t slice_offset = 0;
  std::uint64_t count = 0;
};

// A tensor of the checkpoint, or rows of one that several slices share. Its pieces are in its own order and leave no
// gap.
struct TensorPlacement {
  std::string name;
  Shape shape;                      // of the whole tensor
  Param param = Param::kEmbedding;  // what it is a part of
  std::vector<TensorPiece> pieces;
};

// Whether the tensor begins in this slice, and not in one before.
inline bool begins_here(const TensorPlacement& placement) { return placement.pieces.front().tensor_offset == 0; }

std::vector<TensorPlacement> place_tensors(const ModelDescription& model, std::size_t slice_idx);

}  // namespace sluice
