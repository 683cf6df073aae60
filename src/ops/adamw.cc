// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"

#include "ops/cpu/adamw.h"
#include "ops/dispatch.h"

namespace sluice {

void adamw(Stream& stream, const AdamW& args) {
  const std::int64_t total = args.weight.shape().num_elements();
  const auto is_as_large = [total](const TensorView& view) { return view.shape().num_elements() == total; };
  CHECK(args.weight.dtype() == DType::kF32 || args.weight.dtype() == DType::kBF16, "weights are f32 or bf16");
  if (args.weight.dtype() == DType::kBF16) {
    CHECK(size_bytes(args.trailing.dtype()) == 2 && is_as_large(args.trailing), "16 trailing bits for each weight");
  } else {
    CHECK(args.trailing.bytes().empty(), "f32 weights have no trailing bits");
  }
  CHECK(args.grad.dtype() == DType::kF32 || args.grad.dtype() == DType::kBF16, "gradients are f32 or bf16");
  CHECK(args.m.dtype() == DType::kF32 && args.v.dtype() == DType::kF32, "moments are f32");
  CHECK(is_as_large(args.grad) && is_as_large(args.m) && is_as_large(args.v), "one size");
  CHECK(args.settings.step >= 1, "the first step is 1");
  put_on_cpu(stream, [args](WorkerTeam& team) { cpu::adamw(team, args); });
}

}  // namespace sluice
