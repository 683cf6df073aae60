// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

#include "ops/cpu/reduce.h"
#include "ops/dispatch.h"

namespace sluice {
namespace {

bool is_float(const TensorView& view) { return view.dtype() == DType::kF32 || view.dtype() == DType::kBF16; }

}  // namespace

void add_column_sums(Stream& stream, TensorView sums, TensorView rows) {
  CHECK(is_float(rows) && rows.shape().rank() == 2, "rows are (rows, cols), f32 or bf16");
  CHECK(sums.dtype() == DType::kF32 && sums.shape() == Shape({rows.shape()[1]}), "sums are (cols) f32");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.add_column_sums(stream, sums, rows); },
      [=](WorkerTeam& team) { cpu::add_column_sums(team, sums, rows); });
}

void sum_of_squares(Stream& stream, TensorView sum, TensorView values) {
  CHECK(is_float(values), "values are f32 or bf16");
  CHECK(sum.dtype() == DType::kF32 && sum.shape() == Shape({1}), "the sum is (1) f32");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.sum_of_squares(stream, sum, values); },
      [=](WorkerTeam& team) { cpu::sum_of_squares(team, sum, values); });
}

}  // namespace sluice
