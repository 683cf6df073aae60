// SPDX-License-Identifier: Apache-2.0
// What every optimizer demands of masters and gradients; see ops/adamw.h.
#pragma once

#include "base/check.h"
#include "tensor/tensor_view.h"

namespace sluice {

inline bool is_as_large(const TensorView& view, const TensorView& weight) {
  return view.shape().num_elements() == weight.shape().num_elements();
}

inline void check_master(const TensorView& weight, const TensorView& trailing, const TensorView& grad) {
  CHECK(weight.dtype() == DType::kF32 || weight.dtype() == DType::kBF16, "weights are f32 or bf16");
  if (weight.dtype() == DType::kBF16) {
    CHECK(size_bytes(trailing.dtype()) == 2 && is_as_large(trailing, weight), "16 trailing bits for each weight");
  } else {
    CHECK(trailing.bytes().empty(), "f32 weights have no trailing bits");
  }
  CHECK(grad.dtype() == DType::kF32 || grad.dtype() == DType::kBF16, "gradients are f32 or bf16");
  CHECK(is_as_large(grad, weight), "a gradient for each weight");
}

}  // namespace sluice
