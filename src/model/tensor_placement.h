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

// A tensor of the checkpoint. Its pieces are in its own order and cover it.
struct TensorPlacement {
  std::string name;
  Shape shape;
  Param param = Param::kEmbedding;  // what it is a part of
  std::vector<TensorPiece> pieces;
};

std::vector<TensorPlacement> place_tensors(const ModelDescription& model, std::size_t slice_idx);

}  // namespace sluice
