// SPDX-License-Identifier: Apache-2.0
// Updates on a card give the CPU's bits: every operation in them is rounded correctly on both.
#include <cstdint>

#include "ops/adamw.h"
#include "ops/cuda/parity.h"
#include "ops/sgd.h"

namespace sluice::testing {
namespace {

using CudaOptimizer = CudaTest;

// Codes in memory that can be compared: four are an i32.
TestTensor codes_of(std::int64_t count) { return TestTensor(DType::kI32, {(count + 3) / 4}); }

TensorView as_codes(const TensorView& words, std::int64_t count) { return {words.bytes(), DType::kU8, {count}}; }

TEST_F(CudaOptimizer, AdamW) {
  for (const std::int64_t count : {1, 255, 4096, 10007}) {
    for (const DType weights : float_types()) {
      for (const DType grads : float_types()) {
        for (const DType precision : {DType::kF32, DType::kBF16, DType::kU8}) {
          SCOPED_TRACE(::testing::Message()
                       << count << " " << label(weights) << " " << label(grads) << " " << name(precision));
          const bool split = weights == DType::kBF16;
          const bool in_codes = precision == DType::kU8;
          const TestTensor weight = random_tensor(weights, {count}, 1);
          const TestTensor trailing = random_tensor(DType::kBF16, {count}, 2);
          const TestTensor grad = random_tensor(grads, {count}, 3, 1e-3);
          const TestTensor m = in_codes ? codes_of(count) : TestTensor(precision, {count});
          const TestTensor v = in_codes ? codes_of(count) : TestTensor(precision, {count});
          const std::int64_t num_blocks = (count + kMomentBlock - 1) / kMomentBlock;
          const TestTensor m_absmax(DType::kF32, {num_blocks});
          const TestTensor v_absmax(DType::kF32, {num_blocks});
          expect_parity(
              [&](Stream& stream, const Place& at) {
                const auto moment = [&](const TestTensor& tensor) {
                  return in_codes ? as_codes(at(tensor), count) : at(tensor);
                };
                for (const std::int64_t step : {1, 2, 3}) {
                  adamw(stream,
                        {.settings = {.learning_rate = 1e-2, .weight_decay = 0.1, .step = step, .grad_scale = 0.7F},
                         .weight = at(weight),
                         .trailing = split ? at(trailing) : TensorView(),
                         .grad = at(grad),
                         .m = moment(m),
                         .v = moment(v),
                         .m_absmax = in_codes ? at(m_absmax) : TensorView(),
                         .v_absmax = in_codes ? at(v_absmax) : TensorView(),
                         .seed = 5,
                         .first_element = (std::int64_t{1} << 32) - 4096});
                }
              },
              {&weight, &trailing, &m, &v, &m_absmax, &v_absmax}, kSameBits);
        }
      }
    }
  }
}

TEST_F(CudaOptimizer, Sgd) {
  for (const std::int64_t count : {1, 4099}) {
    for (const DType weights : float_types()) {
      for (const double momentum : {0.0, 0.9}) {
        const bool split = weights == DType::kBF16;
        const TestTensor weight = random_tensor(weights, {count}, 1);
        const TestTensor trailing = random_tensor(DType::kBF16, {count}, 2);
        const TestTensor grad = random_tensor(weights, {count}, 3);
        const TestTensor velocity = random_tensor(DType::kF32, {count}, 4);
        expect_parity(
            [&](Stream& stream, const Place& at) {
              sgd(stream,
                  {.settings = {.learning_rate = 0.1, .momentum = momentum, .weight_decay = 0.01, .grad_scale = 0.5F},
                   .weight = at(weight),
                   .trailing = split ? at(trailing) : TensorView(),
                   .grad = at(grad),
                   .velocity = momentum == 0 ? TensorView() : at(velocity)});
            },
            {&weight, &trailing, &velocity}, kSameBits);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::testing
