// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include "ops/cuda/parity.h"

namespace sluice::testing {
namespace {

using CudaNorm = CudaTest;

struct NormCase {
  NormKind kind;
  DType dtype;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t dim;
  NormColumns columns;
};

std::vector<NormCase> norm_cases() {
  std::vector<NormCase> all;
  for (const NormKind kind : {NormKind::kRms, NormKind::kRmsPlusOne, NormKind::kLayer}) {
    for (const DType dtype : float_types()) {
      for (const std::int64_t dim : {1, 3, 33, 128, 511, 2500, 4096, 14336}) {
        all.push_back({kind, dtype, 5, dim, dim, {}});
      }
      all.push_back({kind, dtype, 400, 1024, 1024, {}});                         // several parts
      all.push_back({kind, dtype, 100, 1024, 128, {}});                          // heads that fill the row
      all.push_back({kind, dtype, 40, 45, 9, {.first_col = 5, .num_runs = 3}});  // heads within it
      all.push_back({kind, dtype, 70, 768, 64, {.first_col = 128, .num_runs = 8}});
      all.push_back({kind, dtype, 2, 30000, 30000, {}});  // sums beyond shared memory
    }
  }
  return all;
}

std::string text(const NormCase& c) {
  return std::to_string(static_cast<int>(c.kind)) + " " + label(c.dtype) + " dim " + std::to_string(c.dim);
}

TEST_F(CudaNorm, Forward) {
  for (const NormCase& c : norm_cases()) {
    SCOPED_TRACE(text(c));
    const TestTensor x = random_tensor(c.dtype, {c.rows, c.width}, 1);
    const TestTensor weight = random_tensor(c.dtype, {c.dim}, 2);
    const TestTensor bias = random_tensor(c.dtype, {c.dim}, 3);
    const TestTensor y = random_tensor(c.dtype, {c.rows, c.width}, 4);
    expect_parity(
        [&](Stream& stream, const Place& at) {
          norm_forward(stream, {.kind = c.kind,
                                .eps = 1e-5F,
                                .x = at(x),
                                .weight = at(weight),
                                .bias = c.kind == NormKind::kLayer ? at(bias) : TensorView(),
                                .y = at(y),
                                .columns = c.columns});
        },
        {&y});
  }
}

TEST_F(CudaNorm, BackwardAddsToTheGradientsOfWeights) {
  for (const NormCase& c : norm_cases()) {
    SCOPED_TRACE(text(c));
    const bool layer = c.kind == NormKind::kLayer;
    const TestTensor x = random_tensor(c.dtype, {c.rows, c.width}, 1);
    const TestTensor weight = random_tensor(c.dtype, {c.dim}, 2);
    const TestTensor dy = random_tensor(c.dtype, {c.rows, c.width}, 3);
    const TestTensor dx = random_tensor(c.dtype, {c.rows, c.width}, 4);
    const TestTensor dweight = random_tensor(DType::kF32, {c.dim}, 5);
    const TestTensor dbias = random_tensor(DType::kF32, {c.dim}, 6);
    // A run of one element has a gradient of 0 but for cancellation.
    const Tolerance tolerance = c.dim == 1 ? Tolerance{.f32 = 1e9, .bf16 = 1e9} : Tolerance{};
    expect_parity(
        [&](Stream& stream, const Place& at) {
          norm_backward(stream, {.kind = c.kind,
                                 .eps = 1e-5F,
                                 .x = at(x),
                                 .weight = at(weight),
                                 .dy = at(dy),
                                 .dx = at(dx),
                                 .dweight = at(dweight),
                                 .dbias = layer ? at(dbias) : TensorView(),
                                 .columns = c.columns});
        },
        {&dx}, tolerance);
    expect_parity(
        [&](Stream& stream, const Place& at) {
          norm_backward(stream, {.kind = c.kind,
                                 .eps = 1e-5F,
                                 .x = at(x),
                                 .weight = at(weight),
                                 .dy = at(dy),
                                 .dx = at(dx),
                                 .dweight = at(dweight),
                                 .dbias = layer ? at(dbias) : TensorView(),
                                 .columns = c.columns});
        },
        {&dweight, &dbias});
  }
}

TEST_F(CudaNorm, BackwardInPlaceWithoutGradientsOfWeights) {
  for (const DType dtype : float_types()) {
    for (const std::int64_t dim : {64, 1024}) {
      const TestTensor x = random_tensor(dtype, {37, dim}, 1);
      const TestTensor weight = random_tensor(dtype, {dim}, 2);
      const TestTensor dy = random_tensor(dtype, {37, dim}, 3);
      expect_parity(
          [&](Stream& stream, const Place& at) {
            norm_backward(stream, {.eps = 1e-6F, .x = at(x), .weight = at(weight), .dy = at(dy), .dx = at(dy)});
          },
          {&dy});
    }
  }
}

}  // namespace
}  // namespace sluice::testing
