// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#include "ops/cpu/activation.h"
#include "ops/dispatch.h"

namespace sluice {
namespace {

void check_operands(Gating gating, const TensorView& x, const TensorView& h) {
  CHECK(x.dtype() == DType::kF32 || x.dtype() == DType::kBF16, "x is f32 or bf16");
  CHECK(h.dtype() == x.dtype(), "one dtype");
  CHECK(x.shape().rank() == 2 && h.shape().rank() == 2, "(tokens, width)");
  CHECK(x.shape()[0] == h.shape()[0], "one number of tokens");
  CHECK(x.shape()[1] == (gating == Gating::kGated ? 2 : 1) * h.shape()[1], "x is as wide as the gating says");
}

}  // namespace

void activation_forward(Stream& stream, const ActivationForward& args) {
  check_operands(args.gating, args.x, args.h);
  dispatch(
      stream, [&](Kernels& kernels) { kernels.activation_forward(stream, args); },
      [args](WorkerTeam& team) { cpu::activation_forward(team, args); });
}

void activation_backward(Stream& stream, const ActivationBackward& args) {
  check_operands(args.gating, args.x, args.dh);
  CHECK(args.dx.dtype() == args.x.dtype() && args.dx.shape() == args.x.shape(), "dx is as x");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.activation_backward(stream, args); },
      [args](WorkerTeam& team) { cpu::activation_backward(team, args); });
}

}  // namespace sluice
