// SPDX-License-Identifier: Apache-2.0
#include "ops/gemm.h"

#include "base/check.h"
#include "ops/cpu/gemm.h"
#include "ops/dispatch.h"

namespace sluice {
namespace {

bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

void check(const Gemm& args) {
  CHECK(args.a.shape().rank() == 2 && args.b.shape().rank() == 2 && args.c.shape().rank() == 2,
        "the matrices of a product have rank 2");
  CHECK(is_float(args.a.dtype()) && args.b.dtype() == args.a.dtype(), "a and b are both bf16 or both f32");
  CHECK(is_float(args.c.dtype()), "c is bf16 or f32");
  const GemmExtents extents = gemm_extents(args);
  CHECK((args.transpose_b == Transpose::kYes ? args.b.shape()[1] : args.b.shape()[0]) == extents.k,
        "a and b agree on k");
  CHECK(args.c.shape()[0] == extents.m && args.c.shape()[1] == extents.n, "c is (m, n)");
  if (has_bias(args)) {
    CHECK(args.bias.dtype() == args.a.dtype() && args.bias.shape() == Shape({extents.n}), "bias is (n) of a's dtype");
  }
}

}  // namespace

void gemm(Stream& stream, const Gemm& args) {
  check(args);
  dispatch(
      stream, [&](Kernels& kernels) { kernels.gemm(stream, args); },
      [args](WorkerTeam& team) { cpu::gemm(team, args); });
}

}  // namespace sluice
