// SPDX-License-Identifier: Apache-2.0
#include "ops/dropout.h"

#include "ops/cpu/dropout.h"
#include "ops/dispatch.h"

namespace sluice {

void dropout(Stream& stream, const Dropout& args) {
  CHECK(args.in.dtype() == DType::kF32 || args.in.dtype() == DType::kBF16, "f32 or bf16");
  CHECK(args.in.dtype() == args.out.dtype() && args.in.shape() == args.out.shape(), "one dtype and shape");
  CHECK(args.in.shape().rank() == 2 && args.first_row >= 0, "rows");
  CHECK(args.rate >= 0 && args.rate < 1, "not everything is left out");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.dropout(stream, args); },
      [args](WorkerTeam& team) { cpu::dropout(team, args); });
}

}  // namespace sluice
