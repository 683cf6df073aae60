// SPDX-License-Identifier: Apache-2.0
#include "ops/quantize.h"

#include "ops/cpu/quantize.h"
#include "ops/dispatch.h"

namespace sluice {
namespace {

void check_float(const TensorView& view) {
  CHECK(view.dtype() == DType::kF32 || view.dtype() == DType::kBF16, "weights are f32 or bf16");
}

bool holds(const TensorView& view, DType dtype, std::int64_t num_elements) {
  return view.dtype() == dtype && view.shape().num_elements() == num_elements;
}

void check_nf4(const Nf4Tensor& tensor, std::int64_t num_elements) {
  const Nf4Sizes sizes = nf4_sizes(num_elements);
  CHECK(holds(tensor.codes, DType::kU8, sizes.num_code_bytes), "half a byte for each element");
  CHECK(holds(tensor.absmax_codes, DType::kU8, sizes.num_absmax_codes), "a code for each block's absmax");
  CHECK(holds(tensor.absmax_scales, DType::kF32, sizes.num_absmax_scales), "a scale for each block of those");
  CHECK(holds(tensor.absmax_mean, DType::kF32, 1), "one mean");
}

void check_int8(const Int8Rows& rows, const TensorView& weights) {
  check_float(weights);
  CHECK(weights.shape().rank() == 2 && rows.codes.dtype() == DType::kI8 && rows.codes.shape() == weights.shape(),
        "a code for each element of a matrix");
  CHECK(holds(rows.absmax, DType::kF32, weights.shape()[0]), "an absmax for each row");
}

}  // namespace

void quantize_nf4(Stream& stream, const Nf4Tensor& to, TensorView from) {
  check_float(from);
  check_nf4(to, from.shape().num_elements());
  dispatch(
      stream, [&](Kernels& kernels) { kernels.quantize_nf4(stream, to, from); },
      [=](WorkerTeam& team) { cpu::quantize_nf4(team, to, from); });
}

void dequantize_nf4(Stream& stream, const Nf4Dequantize& args) {
  check_float(args.to);
  check_nf4(args.from, args.num_elements);
  CHECK(args.first_element >= 0 && args.first_element % kNf4Block == 0, "a part begins with a block");
  CHECK(args.first_element + args.to.shape().num_elements() <= args.num_elements, "elements that are there");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.dequantize_nf4(stream, args); },
      [args](WorkerTeam& team) { cpu::dequantize_nf4(team, args); });
}

void quantize_int8(Stream& stream, const Int8Rows& to, TensorView from) {
  check_int8(to, from);
  dispatch(
      stream, [&](Kernels& kernels) { kernels.quantize_int8(stream, to, from); },
      [=](WorkerTeam& team) { cpu::quantize_int8(team, to, from); });
}

void dequantize_int8(Stream& stream, TensorView to, const Int8Rows& from) {
  check_int8(from, to);
  dispatch(
      stream, [&](Kernels& kernels) { kernels.dequantize_int8(stream, to, from); },
      [=](WorkerTeam& team) { cpu::dequantize_int8(team, to, from); });
}

}  // namespace sluice
