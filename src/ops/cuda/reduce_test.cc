// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

#include "ops/cuda/parity.h"

namespace sluice::testing {
namespace {

using CudaReduce = CudaTest;

TEST_F(CudaReduce, ColumnSumsAreAdded) {
  for (const DType dtype : float_types()) {
    for (const Shape& shape : {Shape{1, 1}, Shape{63, 5}, Shape{1000, 129}, Shape{3001, 512}}) {
      const TestTensor rows = random_tensor(dtype, shape, 1);
      const TestTensor sums = random_tensor(DType::kF32, {shape[1]}, 2);
      expect_parity([&](Stream& stream, const Place& at) { add_column_sums(stream, at(sums), at(rows)); }, {&sums});
    }
  }
}

TEST_F(CudaReduce, SumOfSquares) {
  for (const DType dtype : float_types()) {
    for (const std::int64_t count : {0, 1, 7, 65536, 65537, 1000003}) {
      const TestTensor values = random_tensor(dtype, {count}, 1);
      const TestTensor sum = random_tensor(DType::kF32, {1}, 2);
      expect_parity([&](Stream& stream, const Place& at) { sum_of_squares(stream, at(sum), at(values)); }, {&sum},
                    {.f32 = 1e-7});
    }
    const TestTensor values = random_tensor(dtype, {5, 3}, 3);
    const TestTensor sum(DType::kF32, {1});
    expect_parity([&](Stream& stream, const Place& at) { sum_of_squares(stream, at(sum), at(values).rows(1, 4)); },
                  {&sum}, {.f32 = 1e-7});
  }
}

}  // namespace
}  // namespace sluice::testing
