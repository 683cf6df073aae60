// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy.h"

#include "base/error.h"
#include "ops/cuda/parity.h"

namespace sluice::testing {
namespace {

using CudaCrossEntropy = CudaTest;

// Every fifth token is ignored.
TestTensor some_labels(std::int64_t num_tokens, std::int64_t vocab) {
  Doubles labels = random_ids({num_tokens}, static_cast<std::uint64_t>(vocab), 9).doubles();
  for (std::size_t token = 0; token < labels.size(); token += 5) labels[token] = kIgnoreLabel;
  return {DType::kI32, {num_tokens}, labels};
}

TEST_F(CudaCrossEntropy, LossAndGradient) {
  for (const std::int64_t vocab : {2, 7, 1000, 4096, 50257}) {
    for (const float cap : {0.0F, 5.0F}) {
      for (const DType dtype : float_types()) {
        SCOPED_TRACE(::testing::Message() << vocab << " cap " << cap << " " << label(dtype));
        const TestTensor logits = random_tensor(DType::kF32, {13, vocab}, 1, 4);
        const TestTensor labels = some_labels(13, vocab);
        const TestTensor losses(DType::kF32, {13});
        const TestTensor dlogits = random_tensor(dtype, {13, vocab}, 2);
        expect_parity(
            [&](Stream& stream, const Place& at) {
              cross_entropy(stream, {.logits = at(logits),
                                     .labels = at(labels),
                                     .losses = at(losses),
                                     .dlogits = at(dlogits),
                                     .soft_cap = cap,
                                     .grad_scale = 0.125F});
            },
            {&losses, &dlogits});
      }
      const TestTensor logits = random_tensor(DType::kF32, {13, vocab}, 3, 4);
      const TestTensor labels = some_labels(13, vocab);
      const TestTensor losses(DType::kF32, {13});
      expect_parity(  // in place
          [&](Stream& stream, const Place& at) {
            cross_entropy(stream, {.logits = at(logits),
                                   .labels = at(labels),
                                   .losses = at(losses),
                                   .dlogits = at(logits),
                                   .soft_cap = cap});
          },
          {&losses, &logits});
    }
  }
}

TEST_F(CudaCrossEntropy, RangesGiveWhatTheWholeGives) {
  constexpr std::int64_t kTokens = 11;
  constexpr std::int64_t kFirst = 700;
  constexpr std::int64_t kSecond = 333;
  for (const float cap : {0.0F, 8.0F}) {
    for (const DType dtype : float_types()) {
      const TestTensor first = random_tensor(DType::kF32, {kTokens, kFirst}, 1, 4);
      const TestTensor second = random_tensor(DType::kF32, {kTokens, kSecond}, 2, 4);
      const TestTensor labels = some_labels(kTokens, kFirst + kSecond);
      const TestTensor statistics(DType::kF32, {kTokens, kSoftmaxStatistics});
      const TestTensor losses(DType::kF32, {kTokens});
      const TestTensor dfirst(dtype, {kTokens, kFirst});
      const TestTensor dsecond(dtype, {kTokens, kSecond});
      expect_parity(
          [&](Stream& stream, const Place& at) {
            softmax_statistics(stream, {.logits = at(first),
                                        .labels = at(labels),
                                        .statistics = at(statistics),
                                        .first_id = 0,
                                        .soft_cap = cap});
            softmax_statistics(stream, {.logits = at(second),
                                        .labels = at(labels),
                                        .statistics = at(statistics),
                                        .first_id = kFirst,
                                        .soft_cap = cap,
                                        .into = Into::kAdd});
            losses_of_statistics(stream, at(statistics), at(labels), at(losses));
            softmax_gradient(stream, {.logits = at(first),
                                      .labels = at(labels),
                                      .statistics = at(statistics),
                                      .dlogits = at(dfirst),
                                      .first_id = 0,
                                      .soft_cap = cap,
                                      .grad_scale = 0.5F});
            softmax_gradient(stream, {.logits = at(second),
                                      .labels = at(labels),
                                      .statistics = at(statistics),
                                      .dlogits = at(dsecond),
                                      .first_id = kFirst,
                                      .soft_cap = cap,
                                      .grad_scale = 0.5F});
          },
          {&losses, &dfirst, &dsecond});
    }
  }
}

TEST_F(CudaCrossEntropy, CapsLogits) {
  const TestTensor values = random_tensor(DType::kF32, {3, 1001}, 1, 30);
  expect_parity([&](Stream& stream, const Place& at) { soft_cap(stream, at(values), 30); }, {&values});
}

TEST_F(CudaCrossEntropy, ALabelBeyondTheVocabularyIsInvalidInput) {
  const TestTensor logits = random_tensor(DType::kF32, {3, 10}, 1);
  const TestTensor labels(DType::kI32, {3}, {1, 10, 2});
  const TestTensor losses(DType::kF32, {3});
  EXPECT_THROW(on_card(
                   [&](Stream& stream, const Place& at) {
                     cross_entropy(stream, {.logits = at(logits), .labels = at(labels), .losses = at(losses)});
                   },
                   {&losses}),
               InvalidInput);
}

}  // namespace
}  // namespace sluice::testing
