// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary.h"

#include "ops/cuda/parity.h"

namespace sluice::testing {
namespace {

using CudaRotary = CudaTest;

TEST_F(CudaRotary, TurnsAsTheCpuDoes) {
  struct Case {
    std::int64_t tokens, width, num_heads, head_dim, half;
  };
  for (const Case& c : {Case{5, 24, 3, 8, 4}, Case{7, 45, 4, 11, 3}, Case{300, 1536, 10, 128, 64},
                        Case{33, 640, 5, 128, 32}, Case{1, 128, 1, 128, 64}}) {
    for (const DType dtype : float_types()) {
      for (const Turn turn : {Turn::kForward, Turn::kBackward}) {
        SCOPED_TRACE(::testing::Message() << c.width << " " << c.head_dim << " " << label(dtype));
        const TestTensor heads = random_tensor(dtype, {c.tokens, c.width}, 1);
        const TestTensor cos = random_tensor(DType::kF32, {c.tokens, c.half}, 2);
        const TestTensor sin = random_tensor(DType::kF32, {c.tokens, c.half}, 3);
        expect_parity(
            [&](Stream& stream, const Place& at) {
              rotary(stream, {.heads = at(heads),
                              .cos = at(cos),
                              .sin = at(sin),
                              .num_heads = c.num_heads,
                              .head_dim = c.head_dim,
                              .turn = turn});
            },
            {&heads}, {.f32 = 1e-7, .bf16 = 1e-4});
      }
    }
  }
}

}  // namespace
}  // namespace sluice::testing
