// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy.h"

#include "ops/cpu/cross_entropy.h"
#include "ops/dispatch.h"

namespace sluice {

void cross_entropy(Stream& stream, const CrossEntropy& args) {
  const TensorView& logits = args.logits;
  CHECK(logits.dtype() == DType::kF32 && logits.shape().rank() == 2, "logits are (tokens, vocab) f32");
  CHECK(logits.shape()[1] > 0, "a vocabulary has tokens");
  const Shape tokens = {logits.shape()[0]};
  CHECK(args.labels.dtype() == DType::kI32 && args.labels.shape() == tokens, "labels are (tokens) i32");
  CHECK(args.losses.dtype() == DType::kF32 && args.losses.shape() == tokens, "losses are (tokens) f32");
  if (!args.dlogits.bytes().empty()) {
    CHECK(args.dlogits.dtype() == DType::kF32 || args.dlogits.dtype() == DType::kBF16, "dlogits are f32 or bf16");
    CHECK(args.dlogits.shape() == logits.shape(), "dlogits are as logits");
    CHECK(args.dlogits.dtype() == DType::kF32 || args.dlogits.bytes().data() != logits.bytes().data(),
          "bf16 gradients need memory of their own");
  }
  CHECK(args.soft_cap >= 0, "a cap is positive, or 0 for none");
  put_on_cpu(stream, [args](WorkerTeam& team) { cpu::cross_entropy(team, args); });
}

void soft_cap(Stream& stream, TensorView values, float cap) {
  CHECK(values.dtype() == DType::kF32, "values are f32");
  CHECK(cap > 0, "a cap is positive");
  put_on_cpu(stream, [=](WorkerTeam& team) { cpu::soft_cap(team, values, cap); });
}

}  // namespace sluice
