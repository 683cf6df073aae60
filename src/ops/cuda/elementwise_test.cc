// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include "ops/cuda/parity.h"

namespace sluice::testing {
namespace {

using CudaElementwise = CudaTest;

TEST_F(CudaElementwise, AddIsTheCpusBitForBit) {
  for (const DType dtype : float_types()) {
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 5}, Shape{257, 1031}, Shape{64, 4096}}) {
      const TestTensor a = random_tensor(dtype, shape, 1);
      const TestTensor b = random_tensor(dtype, shape, 2);
      const TestTensor out(dtype, shape);
      expect_parity([&](Stream& stream, const Place& at) { add(stream, at(out), at(a), at(b)); }, {&out},
                    {.f32 = 0, .bf16 = 0});
    }
  }
}

TEST_F(CudaElementwise, AddInPlaceOfUnalignedRows) {
  for (const DType dtype : float_types()) {
    const TestTensor a = random_tensor(dtype, {5, 7}, 3);
    const TestTensor b = random_tensor(dtype, {5, 7}, 4);
    expect_parity(
        [&](Stream& stream, const Place& at) { add(stream, at(a).rows(1, 3), at(a).rows(1, 3), at(b).rows(1, 3)); },
        {&a}, {.f32 = 0, .bf16 = 0});
  }
}

TEST_F(CudaElementwise, RoundsAsTheCpuDoes) {
  for (const DType dtype : float_types()) {
    for (const Shape& shape : {Shape{1}, Shape{1023}, Shape{4096}}) {
      const TestTensor in = random_tensor(DType::kF32, shape, 5);
      const TestTensor out(dtype, shape);
      expect_parity([&](Stream& stream, const Place& at) { round_to(stream, at(out), at(in)); }, {&out},
                    {.f32 = 0, .bf16 = 0});
    }
  }
}

TEST_F(CudaElementwise, RoundsInPlaceAsTheCpuDoes) {
  for (const Shape& shape : {Shape{1}, Shape{1023}, Shape{4096}}) {
    const TestTensor values = random_tensor(DType::kF32, shape, 8);
    expect_parity([&](Stream& stream, const Place& at) { round_values(stream, at(values)); }, {&values},
                  {.f32 = 0, .bf16 = 0});
  }
}

TEST_F(CudaElementwise, CopiesColumnsAndLeavesTheOthers) {
  for (const DType dtype : float_types()) {
    const TestTensor from = random_tensor(dtype, {9, 33}, 6);
    const TestTensor to = random_tensor(dtype, {9, 21}, 7);
    expect_parity(
        [&](Stream& stream, const Place& at) {
          copy_columns(stream, {.rows = at(to), .first_col = 2}, {.rows = at(from), .first_col = 13}, 17);
        },
        {&to}, {.f32 = 0, .bf16 = 0});
  }
}

}  // namespace
}  // namespace sluice::testing
