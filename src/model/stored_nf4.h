// SPDX-License-Identifier: Apache-2.0
// Matrices of a checkpoint that are in NF4 already, as bitsandbytes saves them: checked, read as they are, and written.
#pragma once

#include <string>
#include <vector>

#include "format/checkpoint.h"
#include "format/checkpoint_writer.h"
#include "model/tensor_placement.h"
#include "ops/quantize.h"

namespace sluice {

// The names of all that the checkpoint holds of the matrix.
std::vector<std::string> stored_nf4_names(const std::string& weight);

// Throws FormatError or InvalidInput that names the tensor which is missing, or is not what it should be.
void require_stored_nf4(const Checkpoint& checkpoint, const TensorPlacement& matrix);
// After require_stored_nf4(). `into` is host memory.
void read_stored_nf4(const Checkpoint& checkpoint, const std::string& weight, const Nf4Tensor& into);
// The whole matrix in another element type, f32 or bf16, piece by piece.
void unpack_stored_nf4(const Checkpoint& checkpoint, const std::string& weight, const TensorView& into);

// In the order in which write_stored_nf4() writes them.
std::vector<PlannedTensor> plan_stored_nf4(const std::string& weight, const Shape& shape);
// `dtype` is what the matrix was before.
void write_stored_nf4(CheckpointWriter& writer, const Nf4Tensor& matrix, const Shape& shape, DType dtype);

// Host memory for a matrix in NF4.
class Nf4Memory {
 public:
  explicit Nf4Memory(const Shape& shape);
  const Nf4Tensor& tensor() const { return tensor_; }

 private:
  std::vector<std::byte> codes_, absmax_codes_, absmax_scales_, absmax_mean_;
  Nf4Tensor tensor_;
};

}  // namespace sluice
