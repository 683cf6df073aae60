// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include "ops/cpu/norm.h"
#include "ops/dispatch.h"

namespace sluice {
namespace {

bool is_given(const TensorView& view) { return !view.bytes().empty(); }

// What forward and backward have in common.
void check_operands(const TensorView& x, const TensorView& weight, const NormColumns& columns) {
  CHECK(x.dtype() == DType::kF32 || x.dtype() == DType::kBF16, "x is f32 or bf16");
  CHECK(x.shape().rank() == 2 && weight.shape().rank() == 1, "x is (rows, width), weight (dim)");
  CHECK(weight.dtype() == x.dtype(), "weights are of x's dtype");
  const std::int64_t width = x.shape()[1];
  const std::int64_t dim = weight.shape()[0];
  CHECK(dim > 0 && columns.first_col >= 0 && columns.first_col <= width && columns.num_runs >= 0, "columns of x");
  if (columns.num_runs == 0) {
    CHECK((width - columns.first_col) % dim == 0, "a row holds whole runs");
  } else {
    CHECK(columns.num_runs <= (width - columns.first_col) / dim, "runs lie within the row");
  }
}

NormColumns resolved(const TensorView& x, const TensorView& weight, NormColumns columns) {
  if (columns.num_runs == 0) columns.num_runs = (x.shape()[1] - columns.first_col) / weight.shape()[0];
  return columns;
}

}  // namespace

void norm_forward(Stream& stream, const NormForward& args) {
  check_operands(args.x, args.weight, args.columns);
  CHECK(args.y.dtype() == args.x.dtype() && args.y.shape() == args.x.shape(), "y is as x");
  if (is_given(args.bias)) {
    CHECK(args.kind == NormKind::kLayer, "LayerNorm alone has a bias");
    CHECK(args.bias.dtype() == args.x.dtype() && args.bias.shape() == args.weight.shape(), "bias is as weight");
  }
  NormForward norm = args;
  norm.columns = resolved(args.x, args.weight, args.columns);
  dispatch(
      stream, [&](Kernels& kernels) { kernels.norm_forward(stream, norm); },
      [norm](WorkerTeam& team) { cpu::norm_forward(team, norm); });
}

void norm_backward(Stream& stream, const NormBackward& args) {
  check_operands(args.x, args.weight, args.columns);
  CHECK(args.dy.dtype() == args.x.dtype() && args.dy.shape() == args.x.shape(), "dy is as x");
  CHECK(args.dx.dtype() == args.x.dtype() && args.dx.shape() == args.x.shape(), "dx is as x");
  if (is_given(args.dweight)) {
    CHECK(args.dweight.dtype() == DType::kF32 && args.dweight.shape() == args.weight.shape(), "dweight is (dim) f32");
  }
  if (is_given(args.dbias)) {
    CHECK(args.kind == NormKind::kLayer, "LayerNorm alone has a bias");
    CHECK(args.dbias.dtype() == DType::kF32 && args.dbias.shape() == args.weight.shape(), "dbias is (dim) f32");
  }
  NormBackward norm = args;
  norm.columns = resolved(args.x, args.weight, args.columns);
  dispatch(
      stream, [&](Kernels& kernels) { kernels.norm_backward(stream, norm); },
      [norm](WorkerTeam& team) { cpu::norm_backward(team, norm); });
}

}  // namespace sluice
