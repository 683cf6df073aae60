// SPDX-License-Identifier: Apache-2.0
// C = op(A) op(B) (+ bias) (+ C): the matrix products of a model's forward and backward. Operands are bf16 or f32, sums
// are always f32. An element of C is summed over k in one fixed order for given shapes and CPU path, so results do not
// depend on the number of threads.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

enum class Transpose : std::uint8_t { kNo, kYes };
enum class Into : std::uint8_t { kOverwrite, kAdd };  // C = …, or C += …

struct Gemm {
  TensorView a;     // (m, k); (k, m) where transposed
  TensorView b;     // (k, n); (n, k) where transposed; a's dtype
  TensorView c;     // (m, n); f32 or bf16, whatever a and b are
  TensorView bias;  // (n) of a's dtype, added to every row; or default-constructed: none
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  Into into = Into::kOverwrite;
};

void gemm(Stream& stream, const Gemm& args);

}  // namespace sluice
