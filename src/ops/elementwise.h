// SPDX-License-Identifier: Apache-2.0
// Sums and copies of tensors. Tensors are f32 or bf16, all of one dtype unless said; arithmetic is in float.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

// out = a + b, all of one shape; out may be a or b.
void add(Stream& stream, TensorView out, TensorView a, TensorView b);

// out = in rounded: out bf16 or f32, in f32, of one shape.
void round_to(Stream& stream, TensorView out, TensorView in);

// values (f32), each what bf16 rounds it to.
void round_values(Stream& stream, TensorView values);

// Columns of a row-major tensor.
struct Columns {
  TensorView rows;  // (rows, width)
  std::int64_t first_col = 0;
};

// num_cols columns of every row; both have as many rows, and do not overlap.
void copy_columns(Stream& stream, Columns to, Columns from, std::int64_t num_cols);

}  // namespace sluice
