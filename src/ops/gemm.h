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

// No memory of c may be a's, b's or bias's. Where k is 0 the product is 0; where m or n is, nothing happens.
void gemm(Stream& stream, const Gemm& args);

struct GemmExtents {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

inline GemmExtents gemm_extents(const Gemm& args) {
  const bool a_is_km = args.transpose_a == Transpose::kYes;
  const bool b_is_nk = args.transpose_b == Transpose::kYes;
  return {
      .m = args.a.shape()[a_is_km ? 1 : 0], .n = args.b.shape()[b_is_nk ? 0 : 1], .k = args.a.shape()[a_is_km ? 0 : 1]};
}

inline bool has_bias(const Gemm& args) { return !args.bias.bytes().empty(); }

}  // namespace sluice
