// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding.h"

#include "ops/cpu/embedding.h"
#include "ops/dispatch.h"

namespace sluice {
namespace {

void check_operands(const TensorView& ids, const TensorView& table, const TensorView& out) {
  CHECK(ids.dtype() == DType::kI32 && ids.shape().rank() == 1, "ids are (tokens) i32");
  CHECK(table.shape().rank() == 2, "the table is (rows, dim)");
  CHECK(out.shape() == Shape({ids.shape()[0], table.shape()[1]}), "a row of dim for each token");
  CHECK(out.dtype() == DType::kF32 || out.dtype() == DType::kBF16, "f32 or bf16");
}

}  // namespace

void embedding_forward(Stream& stream, const EmbeddingForward& args) {
  check_operands(args.ids, args.table, args.out);
  CHECK(args.table.dtype() == args.out.dtype(), "out is of the table's dtype");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.embedding_forward(stream, args); },
      [args](WorkerTeam& team) { cpu::embedding_forward(team, args); });
}

void embedding_backward(Stream& stream, const EmbeddingBackward& args) {
  check_operands(args.ids, args.dtable, args.dout);
  CHECK(args.dtable.dtype() == DType::kF32, "dtable is f32");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.embedding_backward(stream, args); },
      [args](WorkerTeam& team) { cpu::embedding_backward(team, args); });
}

}  // namespace sluice
