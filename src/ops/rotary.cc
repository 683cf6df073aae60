// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary.h"

#include "ops/cpu/rotary.h"
#include "ops/dispatch.h"

namespace sluice {

void rotary(Stream& stream, const Rotary& args) {
  const TensorView& heads = args.heads;
  CHECK(heads.dtype() == DType::kF32 || heads.dtype() == DType::kBF16, "heads are f32 or bf16");
  CHECK(heads.shape().rank() == 2, "heads are (tokens, width)");
  CHECK(args.cos.dtype() == DType::kF32 && args.sin.dtype() == DType::kF32, "tables are f32");
  CHECK(args.cos.shape().rank() == 2 && args.cos.shape()[0] == heads.shape()[0], "tables are (tokens, half)");
  CHECK(args.cos.shape() == args.sin.shape(), "a sine for every cosine");
  CHECK(args.head_dim > 0 && args.cos.shape()[1] <= args.head_dim / 2, "a head holds both halves");
  CHECK(args.num_heads >= 0 && args.num_heads <= heads.shape()[1] / args.head_dim, "heads lie within the row");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.rotary(stream, args); },
      [args](WorkerTeam& team) { cpu::rotary(team, args); });
}

}  // namespace sluice
