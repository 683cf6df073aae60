// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding.h"

#include "base/error.h"
#include "ops/cuda/parity.h"

namespace sluice::testing {
namespace {

using CudaEmbedding = CudaTest;

TEST_F(CudaEmbedding, ForwardTakesRowsOfItsRange) {
  for (const DType dtype : float_types()) {
    for (const std::int64_t dim : {1, 33, 256, 2048}) {
      // The CPU may fuse the scale with a sum; a scale of 1 leaves one way to round.
      for (const Into into : {Into::kOverwrite, Into::kAdd}) {
        const TestTensor ids = random_ids({77}, 60, 1);
        const TestTensor table = random_tensor(dtype, {25, dim}, 2);
        const TestTensor out = random_tensor(dtype, {77, dim}, 3);
        expect_parity(
            [&](Stream& stream, const Place& at) {
              embedding_forward(stream, {.ids = at(ids),
                                         .table = at(table),
                                         .out = at(out),
                                         .range = {.first = 20, .total = 60},
                                         .scale = into == Into::kAdd ? 1.0F : 1.7F,
                                         .into = into});
            },
            {&out}, {.f32 = 0, .bf16 = 0});
      }
    }
  }
}

TEST_F(CudaEmbedding, BackwardSumsInTheOrderOfTokens) {
  for (const DType dtype : float_types()) {
    for (const std::int64_t dim : {1, 33, 256, 2304}) {
      for (const std::uint64_t num_ids : {3U, 61U}) {
        const float scale = num_ids == 3 ? 1.0F : 0.3F;  // the CPU may fuse a scale with the sum
        // Several stretches of ids, and rows that are hit thousands of times.
        const std::int64_t num_tokens = dim == 33 ? 9001 : 77;
        const TestTensor ids = random_ids({num_tokens}, num_ids, 1);
        const TestTensor dout = random_tensor(dtype, {num_tokens, dim}, 2);
        const TestTensor dtable = random_tensor(DType::kF32, {45, dim}, 3);
        expect_parity(
            [&](Stream& stream, const Place& at) {
              embedding_backward(stream, {.ids = at(ids),
                                          .dout = at(dout),
                                          .dtable = at(dtable),
                                          .range = {.first = 1, .total = 61},
                                          .skipped_id = dim == 33 ? 2 : -1,
                                          .scale = scale});
            },
            {&dtable}, {.f32 = scale == 1 ? 0 : 1e-6});
      }
    }
  }
}

TEST_F(CudaEmbedding, AnIdBeyondTheTableIsInvalidInput) {
  for (const double wrong : {-1.0, 10.0}) {
    const TestTensor ids(DType::kI32, {3}, {1, wrong, 2});
    const TestTensor table = random_tensor(DType::kF32, {10, 4}, 1);
    const TestTensor out(DType::kF32, {3, 4});
    EXPECT_THROW(on_card(
                     [&](Stream& stream, const Place& at) {
                       embedding_forward(stream, {.ids = at(ids), .table = at(table), .out = at(out)});
                     },
                     {&out}),
                 InvalidInput);
  }
}

}  // namespace
}  // namespace sluice::testing
