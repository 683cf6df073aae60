// SPDX-License-Identifier: Apache-2.0
// Sums over many rows for each column, in two steps: blocks of rows are summed apart into rows of scratch memory, then
// those are added up in order. How many there are follows from the shape alone, so the bits do too.
#pragma once

#include <cstdint>

#include "device/cuda/cuda_stream.h"

namespace sluice::cuda {

struct PartialSums {
  std::int64_t num_parts = 0;       // rows of scratch memory
  std::int64_t items_per_part = 0;  // rows of the matrix that each is the sum of; the last may have fewer
};

// For `num_items` rows of num_cols columns: scratch memory stays within 16 MiB for at least one part.
PartialSums cut_into_parts(std::int64_t num_items, std::int64_t num_cols, std::int64_t min_items_per_part);

// sums[j] += parts[0][j] + parts[1][j] + …; parts (num_parts, stride) f32, the first num_cols of each row.
struct AddParts {
  float* sums = nullptr;
  const float* parts = nullptr;
  std::int64_t num_parts = 0;
  std::int64_t stride = 0;
  std::int64_t num_cols = 0;
};
void add_parts(CudaStream& stream, const AddParts& args);

}  // namespace sluice::cuda
