// SPDX-License-Identifier: Apache-2.0
// RMSNorm and LayerNorm over runs of `dim` columns: whole rows of a hidden state, or each head of a row. Statistics and
// arithmetic are f32. x, y and their gradients are f32 or bf16, weights are of x's dtype, gradients of weights are f32
// and are added to.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

enum class NormKind : std::uint8_t {
  kRms,         // y = x / rms(x) * w
  kRmsPlusOne,  // y = x / rms(x) * (1 + w), Gemma
  kLayer,       // y = (x - mean) / std * w + b
};

// Columns [first_col, first_col + num_runs * dim) of every row are normalised, dim at a time; the default is all.
struct NormColumns {
  std::int64_t first_col = 0;
  std::int64_t num_runs = 0;  // 0: as many as the row holds
};

struct NormForward {
  NormKind kind = NormKind::kRms;
  float eps = 0;
  TensorView x;       // (rows, width)
  TensorView weight;  // (dim)
  TensorView bias;    // (dim), kLayer alone, or default-constructed: none
  TensorView y;       // (rows, width); may be x
  NormColumns columns;
};
void norm_forward(Stream& stream, const NormForward& args);

struct NormBackward {
  NormKind kind = NormKind::kRms;
  float eps = 0;
  TensorView x;        // (rows, width), what the forward had
  TensorView weight;   // (dim)
  TensorView dy;       // (rows, width)
  TensorView dx;       // (rows, width); may be dy or x; overwritten in the columns
  TensorView dweight;  // (dim) f32, added to; default-constructed: not wanted
  TensorView dbias;    // (dim) f32, added to; default-constructed: not wanted
  NormColumns columns;
};
void norm_backward(Stream& stream, const NormBackward& args);

}  // namespace sluice
