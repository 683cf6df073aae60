// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding.h"

#include "base/error.h"
#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

constexpr std::int64_t kRows = 11;
constexpr float kScale = 1.7F;

TEST(Embedding, ForwardTakesScaledRowsAndAddsThemWhereAsked) {
  on_every_target([] {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t dim : {1, 7, 33, 100}) {
        SCOPED_TRACE(std::string(label(dtype)) + " dim " + std::to_string(dim));
        const TestTensor ids = random_ids({40}, kRows, 1);
        const TestTensor table = random_tensor(dtype, {kRows, dim}, 2);
        const TestTensor out(dtype, {40, dim});
        const TestTensor added = random_tensor(dtype, {40, dim}, 3);
        const Doubles rows = table.doubles();
        Doubles exact;
        Doubles exact_added = added.doubles();
        for (const double id : ids.doubles()) {
          for (std::int64_t col = 0; col < dim; ++col) {
            exact.push_back(
                rows[static_cast<std::size_t>(id) * static_cast<std::size_t>(dim) + static_cast<std::size_t>(col)] *
                static_cast<double>(kScale));
            exact_added[exact.size() - 1] += exact.back();
          }
        }
        run_on_cpu(2, [&](Stream& stream) {
          embedding_forward(stream, {.ids = ids, .table = table, .out = out, .scale = kScale});
          embedding_forward(stream, {.ids = ids, .table = table, .out = added, .scale = kScale, .into = Into::kAdd});
        });
        expect_close(out, exact, 1e-7);
        expect_close(added, exact_added, 2e-7);
      }
    }
  });
}

TEST(Embedding, BackwardAddsEveryTokensGradientToItsRow) {
  on_every_target([] {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t dim : {1, 7, 33, 100, 200}) {
        SCOPED_TRACE(std::string(label(dtype)) + " dim " + std::to_string(dim));
        const TestTensor ids = random_ids({90}, kRows, 1);
        const TestTensor dout = random_tensor(dtype, {90, dim}, 2);
        const TestTensor dtable = random_tensor(DType::kF32, {kRows, dim}, 3);
        const Doubles grads = dout.doubles();
        const Doubles rows = ids.doubles();
        Doubles exact = dtable.doubles();
        const auto width = static_cast<std::size_t>(dim);
        const std::int64_t skipped_id = dim % 2 == 1 ? static_cast<std::int64_t>(rows[5]) : -1;
        for (std::size_t idx = 0; idx < grads.size(); ++idx) {
          if (rows[idx / width] == static_cast<double>(skipped_id)) continue;
          exact[static_cast<std::size_t>(rows[idx / width]) * width + idx % width] +=
              grads[idx] * static_cast<double>(kScale);
        }
        run_on_cpu(2, [&](Stream& stream) {
          embedding_backward(stream,
                             {.ids = ids, .dout = dout, .dtable = dtable, .skipped_id = skipped_id, .scale = kScale});
        });
        expect_close(dtable, exact, 5e-7);
      }
    }
  });
}

TEST(Embedding, BackwardDoesNotDependOnTheNumberOfThreads) {
  const TestTensor ids = random_ids({500}, kRows, 1);
  const TestTensor dout = random_tensor(DType::kF32, {500, 300}, 2);
  expect_same_bits_for_any_team([&](std::size_t num_threads) {
    const TestTensor dtable(DType::kF32, {kRows, 300});
    run_on_cpu(num_threads,
               [&](Stream& stream) { embedding_backward(stream, {.ids = ids, .dout = dout, .dtable = dtable}); });
    return dtable.bytes();
  });
}

TEST(Embedding, RefusesIdsThatAreNoRowsBeforeItChangesAnything) {
  const TestTensor table = random_tensor(DType::kF32, {kRows, 4}, 1);
  const std::vector<std::byte> before = table.bytes();
  for (const double id : {-1.0, static_cast<double>(kRows)}) {
    const TestTensor ids(DType::kI32, {2}, {3, id});
    const TestTensor out = random_tensor(DType::kF32, {2, 4}, 2);
    EXPECT_THROW(run_on_cpu(1, [&](Stream& s) { embedding_forward(s, {.ids = ids, .table = table, .out = out}); }),
                 InvalidInput);
    EXPECT_THROW(run_on_cpu(1, [&](Stream& s) { embedding_backward(s, {.ids = ids, .dout = out, .dtable = table}); }),
                 InvalidInput);
    EXPECT_EQ(table.bytes(), before);
  }
}

}  // namespace
}  // namespace sluice
