// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#include "ops/cuda/parity.h"

namespace sluice::testing {
namespace {

using CudaActivation = CudaTest;

struct Form {
  Activation activation;
  Gating gating;
  DType dtype;
};

std::vector<Form> forms() {
  std::vector<Form> all;
  for (const Activation activation : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    for (const Gating gating : {Gating::kPlain, Gating::kGated}) {
      for (const DType dtype : float_types()) all.push_back({activation, gating, dtype});
    }
  }
  return all;
}

std::string text(const Form& form) {
  return std::to_string(static_cast<int>(form.activation)) + (form.gating == Gating::kGated ? " gated " : " plain ") +
         label(form.dtype);
}

TEST_F(CudaActivation, ForwardAndBackward) {
  for (const Form& form : forms()) {
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 37}, Shape{70, 2048}, Shape{9, 5000}}) {
      SCOPED_TRACE(text(form) + " " + shape.text());
      const Shape x_shape = {shape[0], shape[1] * (form.gating == Gating::kGated ? 2 : 1)};
      const TestTensor x = random_tensor(form.dtype, x_shape, 1, 3);
      const TestTensor h(form.dtype, shape);
      const TestTensor dh = random_tensor(form.dtype, shape, 2);
      const TestTensor dx(form.dtype, x_shape);
      expect_parity(
          [&](Stream& stream, const Place& at) {
            activation_forward(stream, {.activation = form.activation, .gating = form.gating, .x = at(x), .h = at(h)});
          },
          {&h});
      expect_parity(
          [&](Stream& stream, const Place& at) {
            activation_backward(
                stream, {.activation = form.activation, .gating = form.gating, .x = at(x), .dh = at(dh), .dx = at(dx)});
          },
          {&dx});
      expect_parity(
          [&](Stream& stream, const Place& at) {
            activation_backward(
                stream, {.activation = form.activation, .gating = form.gating, .x = at(x), .dh = at(dh), .dx = at(x)});
          },
          {&x});
    }
  }
}

}  // namespace
}  // namespace sluice::testing
