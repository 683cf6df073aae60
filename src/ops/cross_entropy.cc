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
  dispatch(
      stream, [&](Kernels& kernels) { kernels.cross_entropy(stream, args); },
      [args](WorkerTeam& team) { cpu::cross_entropy(team, args); });
}

void softmax_statistics(Stream& stream, const SoftmaxRange& args) {
  CHECK(args.logits.dtype() == DType::kF32 && args.logits.shape().rank() == 2, "logits are (tokens, range) f32");
  const std::int64_t num_tokens = args.logits.shape()[0];
  CHECK(args.labels.dtype() == DType::kI32 && args.labels.shape() == Shape({num_tokens}), "labels are (tokens) i32");
  CHECK(args.statistics.dtype() == DType::kF32 && args.statistics.shape() == Shape({num_tokens, kSoftmaxStatistics}),
        "statistics are (tokens, 4) f32");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.softmax_statistics(stream, args); },
      [args](WorkerTeam& team) { cpu::softmax_statistics(team, args); });
}

void losses_of_statistics(Stream& stream, TensorView statistics, TensorView labels, TensorView losses) {
  CHECK(labels.dtype() == DType::kI32 && losses.dtype() == DType::kF32 && labels.shape() == losses.shape(),
        "labels are i32, losses f32, one a token");
  CHECK(statistics.shape() == Shape({labels.shape()[0], kSoftmaxStatistics}), "statistics are (tokens, 4) f32");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.losses_of_statistics(stream, statistics, labels, losses); },
      [=](WorkerTeam& team) { cpu::losses_of_statistics(team, statistics, labels, losses); });
}

void softmax_gradient(Stream& stream, const SoftmaxGradient& args) {
  CHECK(args.logits.dtype() == DType::kF32 && args.logits.shape().rank() == 2, "logits are (tokens, range) f32");
  const std::int64_t num_tokens = args.logits.shape()[0];
  CHECK(args.labels.dtype() == DType::kI32 && args.labels.shape() == Shape({num_tokens}), "labels are (tokens) i32");
  CHECK(args.statistics.dtype() == DType::kF32 && args.statistics.shape() == Shape({num_tokens, kSoftmaxStatistics}),
        "statistics are (tokens, 4) f32");
  CHECK(args.dlogits.shape() == args.logits.shape(), "dlogits are as logits");
  CHECK(args.dlogits.dtype() == DType::kF32 || args.dlogits.bytes().data() != args.logits.bytes().data(),
        "bf16 gradients need memory of their own");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.softmax_gradient(stream, args); },
      [args](WorkerTeam& team) { cpu::softmax_gradient(team, args); });
}

void soft_cap(Stream& stream, TensorView values, float cap) {
  CHECK(values.dtype() == DType::kF32, "values are f32");
  CHECK(cap > 0, "a cap is positive");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.soft_cap(stream, values, cap); },
      [=](WorkerTeam& team) { cpu::soft_cap(team, values, cap); });
}

}  // namespace sluice
