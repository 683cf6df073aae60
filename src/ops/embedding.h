// SPDX-License-Identifier: Apache-2.0
// Rows of a table by index, and the gradient of that. Tokens are taken in order, so the sums have one order. A table
// may come in ranges of rows: tokens whose rows are in another range are left alone.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "ops/gemm.h"
#include "tensor/tensor_view.h"

namespace sluice {

// Which rows of the whole table are here.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t total = 0;  // rows of all ranges; 0: these are all
};

struct EmbeddingForward {
  TensorView ids;    // (tokens) i32, each in [0, rows of all ranges); checked when the stream gets there: InvalidInput
  TensorView table;  // (rows, dim) f32 or bf16
  TensorView out;    // (tokens, dim), table's dtype
  RowRange range;
  float scale = 1;  // out = table[id] * scale, rounded once
  Into into = Into::kOverwrite;
};
void embedding_forward(Stream& stream, const EmbeddingForward& args);

struct EmbeddingBackward {
  TensorView ids;     // (tokens) i32
  TensorView dout;    // (tokens, dim) f32 or bf16
  TensorView dtable;  // (rows, dim) f32, added to
  RowRange range;
  std::int64_t skipped_id = -1;  // tokens with it add nothing: torch's padding_idx
  float scale = 1;
};
void embedding_backward(Stream& stream, const EmbeddingBackward& args);

}  // namespace sluice
