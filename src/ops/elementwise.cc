// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include "ops/cpu/elementwise.h"
#include "ops/dispatch.h"

namespace sluice {

void add(Stream& stream, TensorView out, TensorView a, TensorView b) {
  CHECK(a.dtype() == out.dtype() && b.dtype() == out.dtype(), "one dtype");
  CHECK(a.shape() == out.shape() && b.shape() == out.shape(), "one shape");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.add(stream, out, a, b); },
      [=](WorkerTeam& team) { cpu::add(team, out, a, b); });
}

void round_to(Stream& stream, TensorView out, TensorView in) {
  CHECK(in.dtype() == DType::kF32, "f32 is rounded");
  CHECK(out.dtype() == DType::kF32 || out.dtype() == DType::kBF16, "to bf16, or to what it is");
  CHECK(in.shape() == out.shape(), "one shape");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.round_to(stream, out, in); },
      [=](WorkerTeam& team) { cpu::round_to(team, out, in); });
}

void round_values(Stream& stream, TensorView values) {
  CHECK(values.dtype() == DType::kF32, "f32 is rounded");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.round_values(stream, values); },
      [=](WorkerTeam& team) { cpu::round_values(team, values); });
}

void copy_columns(Stream& stream, Columns to, Columns from, std::int64_t num_cols) {
  CHECK(to.rows.dtype() == from.rows.dtype(), "one dtype");
  CHECK(to.rows.shape().rank() == 2 && from.rows.shape().rank() == 2, "rows");
  CHECK(to.rows.shape()[0] == from.rows.shape()[0], "as many rows");
  CHECK(to.first_col >= 0 && to.first_col + num_cols <= to.rows.shape()[1], "columns that are there");
  CHECK(from.first_col >= 0 && from.first_col + num_cols <= from.rows.shape()[1], "columns that are there");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.copy_columns(stream, to, from, num_cols); },
      [=](WorkerTeam& team) {
        cpu::copy_columns(team, {.to = to.rows,
                                 .from = from.rows,
                                 .to_col = to.first_col,
                                 .from_col = from.first_col,
                                 .num_cols = num_cols});
      });
}

}  // namespace sluice
