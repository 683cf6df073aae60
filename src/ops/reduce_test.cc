// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

TEST(Reduce, ColumnSumsAreAdded) {
  on_every_target([] {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t cols : {1, 7, 33, 300}) {
        for (const std::int64_t num_rows : {1, 33, 100}) {
          const TestTensor rows = random_tensor(dtype, {num_rows, cols}, 1);
          const TestTensor sums = random_tensor(DType::kF32, {cols}, 2);
          Doubles exact = sums.doubles();
          const Doubles values = rows.doubles();
          for (std::size_t idx = 0; idx < values.size(); ++idx) exact[idx % exact.size()] += values[idx];
          run_on_cpu(3, [&](Stream& stream) { add_column_sums(stream, sums, rows); });
          expect_close(sums, exact, 2e-6);
        }
      }
    }
  });
}

TEST(Reduce, ColumnSumsDoNotDependOnTheNumberOfThreads) {
  const TestTensor rows = random_tensor(DType::kF32, {20000, 20}, 1);
  expect_same_bits_for_any_team([&](std::size_t num_threads) {
    const TestTensor sums(DType::kF32, {20});
    run_on_cpu(num_threads, [&](Stream& stream) { add_column_sums(stream, sums, rows); });
    return sums.bytes();
  });
}

TEST(Reduce, SumOfSquaresIsAsGoodAsDouble) {
  on_every_target([] {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t count : {1, 7, 33, 100, 200001}) {
        const TestTensor values = random_tensor(dtype, {count}, 1);
        const TestTensor sum = random_tensor(DType::kF32, {1}, 2);  // overwritten
        double exact = 0;
        for (const double value : values.doubles()) exact += value * value;
        run_on_cpu(2, [&](Stream& stream) { sum_of_squares(stream, sum, values); });
        EXPECT_NEAR(sum.doubles()[0], exact, 0x1p-24 * exact) << label(dtype) << " of " << count;
      }
    }
  });
}

// Many small ones beside one large: in float, each alone would vanish.
TEST(Reduce, SmallSquaresBesideALargeOneCount) {
  on_every_target([] {
    Doubles values(100001, 0x1p-20);
    values[0] = 1;
    const TestTensor small(DType::kF32, {100001}, values);
    const TestTensor sum(DType::kF32, {1});
    run_on_cpu(1, [&](Stream& stream) { sum_of_squares(stream, sum, small); });
    EXPECT_EQ(sum.doubles()[0], static_cast<float>(1 + 100000 * 0x1p-40));
    EXPECT_GT(sum.doubles()[0], 1);
  });
}

TEST(Reduce, SumOfSquaresDoesNotDependOnTheNumberOfThreads) {
  const TestTensor values = random_tensor(DType::kF32, {1000003}, 1);
  expect_same_bits_for_any_team([&](std::size_t num_threads) {
    const TestTensor sum(DType::kF32, {1});
    run_on_cpu(num_threads, [&](Stream& stream) { sum_of_squares(stream, sum, values); });
    return sum.bytes();
  });
}

}  // namespace
}  // namespace sluice
