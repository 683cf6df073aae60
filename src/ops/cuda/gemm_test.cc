// SPDX-License-Identifier: Apache-2.0
#include "ops/gemm.h"

#include "ops/cuda/parity.h"

namespace sluice::testing {
namespace {

using CudaGemm = CudaTest;

struct Extents {
  std::int64_t m, n, k;
};

void swap_if(Transpose transpose, std::int64_t& rows, std::int64_t& cols) {
  if (transpose == Transpose::kYes) std::swap(rows, cols);
}

TensorView none() { return {}; }

TEST_F(CudaGemm, EveryFormOfAProduct) {
  for (const Extents e : {Extents{1, 1, 1}, Extents{3, 5, 7}, Extents{64, 96, 128}, Extents{129, 257, 65},
                          Extents{1, 512, 256}, Extents{300, 8, 1000}}) {
    for (const DType operands : float_types()) {
      for (const DType result : float_types()) {
        for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
          for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
            for (const Into into : {Into::kOverwrite, Into::kAdd}) {
              for (const bool with_bias : {false, true}) {
                std::int64_t a_rows = e.m, a_cols = e.k, b_rows = e.k, b_cols = e.n;
                swap_if(ta, a_rows, a_cols);
                swap_if(tb, b_rows, b_cols);
                const TestTensor a = random_tensor(operands, {a_rows, a_cols}, 1);
                const TestTensor b = random_tensor(operands, {b_rows, b_cols}, 2);
                const TestTensor bias = random_tensor(operands, {e.n}, 3);
                const TestTensor c = random_tensor(result, {e.m, e.n}, 4);
                SCOPED_TRACE(::testing::Message()
                             << e.m << " " << e.n << " " << e.k << " " << label(operands) << " to " << label(result)
                             << (ta == Transpose::kYes ? " at" : "") << (tb == Transpose::kYes ? " bt" : "")
                             << (into == Into::kAdd ? " add" : "") << (with_bias ? " bias" : ""));
                expect_parity(
                    [&](Stream& stream, const Place& at) {
                      gemm(stream, {.a = at(a),
                                    .b = at(b),
                                    .c = at(c),
                                    .bias = with_bias ? at(bias) : none(),
                                    .transpose_a = ta,
                                    .transpose_b = tb,
                                    .into = into});
                    },
                    {&c});
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(CudaGemm, LargeProductsOfAModel) {
  for (const DType dtype : float_types()) {
    const TestTensor x = random_tensor(dtype, {384, 1024}, 5);
    const TestTensor w = random_tensor(dtype, {1536, 1024}, 6, 0.02);
    const TestTensor y(dtype, {384, 1536});
    const TestTensor dw = random_tensor(DType::kF32, {1536, 1024}, 7);
    expect_parity(
        [&](Stream& stream, const Place& at) {
          gemm(stream, {.a = at(x), .b = at(w), .c = at(y), .transpose_b = Transpose::kYes});
        },
        {&y});
    const TestTensor dy = random_tensor(dtype, {384, 1536}, 8);
    expect_parity(
        [&](Stream& stream, const Place& at) {
          gemm(stream, {.a = at(dy), .b = at(x), .c = at(dw), .transpose_a = Transpose::kYes, .into = Into::kAdd});
        },
        {&dw});
  }
}

TEST_F(CudaGemm, NothingToSumOver) {
  const TestTensor a(DType::kF32, {3, 0});
  const TestTensor b(DType::kF32, {0, 4});
  const TestTensor bias = random_tensor(DType::kF32, {4}, 1);
  for (const Into into : {Into::kOverwrite, Into::kAdd}) {
    const TestTensor c = random_tensor(DType::kF32, {3, 4}, 2);
    expect_parity(
        [&](Stream& stream, const Place& at) {
          gemm(stream, {.a = at(a), .b = at(b), .c = at(c), .bias = at(bias), .into = into});
        },
        {&c}, {.f32 = 0});
  }
}

TEST_F(CudaGemm, OperandsThatBeginAnywhere) {
  for (const DType dtype : float_types()) {
    const TestTensor a = random_tensor(dtype, {34, 21}, 1);
    const TestTensor b = random_tensor(dtype, {22, 33}, 2);
    const TestTensor c(dtype, {34, 33});
    expect_parity(
        [&](Stream& stream, const Place& at) {
          gemm(stream, {.a = at(a).rows(1, 32), .b = at(b).rows(1, 21), .c = at(c).rows(1, 32)});
        },
        {&c});
  }
}

}  // namespace
}  // namespace sluice::testing
