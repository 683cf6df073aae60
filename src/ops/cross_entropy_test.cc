// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

constexpr float kGradScale = 0.37F;

struct Exact {
  Doubles losses;
  Doubles dlogits;
};

// -log softmax(capped logits)[label], and its derivative by the chain rule, in double.
Exact exact_of(const Doubles& logits, const Doubles& labels, double cap) {
  const std::size_t vocab = logits.size() / labels.size();
  Exact exact = {Doubles(labels.size()), Doubles(logits.size())};
  for (std::size_t token = 0; token < labels.size(); ++token) {
    if (labels[token] < 0) continue;
    const auto label = static_cast<std::size_t>(labels[token]);
    Doubles capped;
    for (std::size_t i = 0; i < vocab; ++i) {
      const double logit = logits[token * vocab + i];
      capped.push_back(cap > 0 ? cap * std::tanh(logit / cap) : logit);
    }
    const double largest = *std::max_element(capped.begin(), capped.end());
    double sum = 0;
    for (const double value : capped) sum += std::exp(value - largest);
    exact.losses[token] = std::log(sum) + largest - capped[label];
    for (std::size_t i = 0; i < vocab; ++i) {
      const double through_cap = cap > 0 ? 1 - capped[i] / cap * (capped[i] / cap) : 1;
      const double p = std::exp(capped[i] - largest) / sum;
      exact.dlogits[token * vocab + i] = (p - (i == label ? 1 : 0)) * through_cap * static_cast<double>(kGradScale);
    }
  }
  return exact;
}

TestTensor labels_of(std::int64_t tokens, std::int64_t vocab) {
  Doubles labels = random_ids({tokens}, static_cast<std::uint64_t>(vocab), 2).doubles();
  if (tokens > 2) labels[1] = kIgnoreLabel;
  return {DType::kI32, {tokens}, labels};
}

TEST(CrossEntropy, LossAndGradientAreTheDefinition) {
  on_every_target([] {
    for (const std::int64_t vocab : {1, 2, 7, 33, 100, 5003}) {
      for (const float cap : {0.0F, 5.0F, 30.0F}) {
        for (const double deviation : {1.0, 30.0}) {
          SCOPED_TRACE("vocab " + std::to_string(vocab) + " cap " + std::to_string(cap));
          const TestTensor logits = random_tensor(DType::kF32, {5, vocab}, 1, deviation);
          const TestTensor labels = labels_of(5, vocab);
          const Exact exact = exact_of(logits.doubles(), labels.doubles(), static_cast<double>(cap));
          for (const DType dtype : {DType::kF32, DType::kBF16}) {
            const TestTensor losses = random_tensor(DType::kF32, {5}, 3);
            const TestTensor dlogits = random_tensor(dtype, {5, vocab}, 4);
            run_on_cpu(2, [&](Stream& stream) {
              cross_entropy(stream, {.logits = logits,
                                     .labels = labels,
                                     .losses = losses,
                                     .dlogits = dlogits,
                                     .soft_cap = cap,
                                     .grad_scale = kGradScale});
            });
            if (vocab > 1) {
              expect_close(losses, exact.losses, 1e-6);
              expect_close(dlogits, exact.dlogits, 4e-6);
            } else {  // a sure token has neither loss nor gradient but rounding, here of logits up to 100
              for (const double value : losses.doubles()) EXPECT_LE(std::abs(value), 1e-5);
              for (const double value : dlogits.doubles()) EXPECT_LE(std::abs(value), 1e-5);
            }
          }
        }
      }
    }
  });
}

TEST(CrossEntropy, GradientMayTakeThePlaceOfTheLogitsOrBeLeftOut) {
  on_every_target([] {
    for (const float cap : {0.0F, 5.0F}) {
      const TestTensor logits = random_tensor(DType::kF32, {7, 101}, 1, 3);
      const TestTensor labels = labels_of(7, 101);
      const Exact exact = exact_of(logits.doubles(), labels.doubles(), static_cast<double>(cap));
      const std::vector<std::byte> before = logits.bytes();
      CrossEntropy args = {
          .logits = logits, .labels = labels, .losses = {}, .dlogits = {}, .soft_cap = cap, .grad_scale = kGradScale};
      const TestTensor losses(DType::kF32, {7});
      args.losses = losses;
      run_on_cpu(3, [&](Stream& stream) { cross_entropy(stream, args); });
      expect_close(losses, exact.losses, 1e-6);
      EXPECT_EQ(logits.bytes(), before);

      const TestTensor losses_again(DType::kF32, {7});
      args.losses = losses_again;
      args.dlogits = logits;
      run_on_cpu(3, [&](Stream& stream) { cross_entropy(stream, args); });
      EXPECT_EQ(losses_again.bytes(), losses.bytes());
      expect_close(logits, exact.dlogits, 1e-6);
    }
  });
}

// As long a row as vocabularies get: a float that adds up all of it would lose digits.
TEST(CrossEntropy, LossOverALargeVocabularyIsAsExactAsOverASmallOne) {
  const TestTensor logits = random_tensor(DType::kF32, {1, 262144}, 1, 0.5);
  const TestTensor labels(DType::kI32, {1}, {77});
  const Exact exact = exact_of(logits.doubles(), labels.doubles(), 0);
  const TestTensor losses(DType::kF32, {1});
  const TestTensor dlogits(DType::kF32, {1, 262144});
  on_every_target([&] {
    run_on_cpu(1, [&](Stream& stream) {
      cross_entropy(
          stream, {.logits = logits, .labels = labels, .losses = losses, .dlogits = dlogits, .grad_scale = kGradScale});
    });
    expect_close(losses, exact.losses, 2e-7);
    const Doubles grads = dlogits.doubles();
    for (std::size_t i = 0; i < grads.size(); ++i) {
      ASSERT_NEAR(grads[i], exact.dlogits[i], 1e-6 * std::abs(exact.dlogits[i])) << i;
    }
  });
}

TEST(CrossEntropy, LargeLogitsDoNotOverflowAndNanShows) {
  on_every_target([] {
    const TestTensor logits(DType::kF32, {3, 3}, {1e30, 0, -1e30, 500, 500, 499, 1, std::nan(""), 2});
    const TestTensor labels(DType::kI32, {3}, {0, 2, 0});
    const TestTensor losses(DType::kF32, {3});
    const TestTensor dlogits(DType::kF32, {3, 3});
    run_on_cpu(1, [&](Stream& stream) {
      cross_entropy(stream, {.logits = logits, .labels = labels, .losses = losses, .dlogits = dlogits});
    });
    EXPECT_EQ(losses.doubles()[0], 0);
    EXPECT_NEAR(losses.doubles()[1], std::log(2 * std::exp(1.0) + 1), 1e-6);
    EXPECT_TRUE(std::isnan(losses.doubles()[2]));
    EXPECT_EQ(dlogits.doubles()[0], 0);
    EXPECT_EQ(dlogits.doubles()[2], 0);
    EXPECT_TRUE(std::isnan(dlogits.doubles()[8]));
  });
}

TEST(CrossEntropy, RefusesLabelsBeyondTheVocabularyBeforeItChangesAnything) {
  for (const double label : {-1.0, 4.0}) {
    const TestTensor logits = random_tensor(DType::kF32, {2, 4}, 1);
    const std::vector<std::byte> before = logits.bytes();
    const TestTensor labels(DType::kI32, {2}, {3, label});
    const TestTensor losses(DType::kF32, {2});
    const auto work = [&](Stream& stream) {
      cross_entropy(stream, {.logits = logits, .labels = labels, .losses = losses, .dlogits = logits});
    };
    EXPECT_THROW(run_on_cpu(2, work), InvalidInput);
    EXPECT_EQ(logits.bytes(), before);
  }
}

TEST(CrossEntropy, ResultsDoNotDependOnTheNumberOfThreads) {
  const TestTensor logits = random_tensor(DType::kF32, {100, 333}, 1, 3);
  const TestTensor labels = labels_of(100, 333);
  expect_same_bits_for_any_team([&](std::size_t num_threads) {
    const TestTensor losses(DType::kF32, {100});
    const TestTensor dlogits = logits.clone();
    run_on_cpu(num_threads, [&](Stream& stream) {
      cross_entropy(stream, {.logits = dlogits, .labels = labels, .losses = losses, .dlogits = dlogits});
    });
    std::vector<std::byte> result = dlogits.bytes();
    const std::vector<std::byte> more = losses.bytes();
    result.insert(result.end(), more.begin(), more.end());
    return result;
  });
}

TEST(SoftCap, IsAccurateForEveryElement) {
  Doubles x = {0, 1e6, -1e6, std::numeric_limits<double>::infinity()};
  for (double value = -400; value < 400; value += 0.0731) x.push_back(static_cast<float>(value));
  for (double value = 1e-30; value < 1; value *= 1.7) x.push_back(static_cast<float>(value));
  const auto size = static_cast<std::int64_t>(x.size());
  on_every_target([&] {
    const TestTensor values(DType::kF32, {size}, x);
    run_on_cpu(2, [&](Stream& stream) { soft_cap(stream, values, 30); });
    const Doubles capped = values.doubles();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double wanted = 30 * std::tanh(x[i] / 30);
      ASSERT_NEAR(capped[i], wanted, 4e-7 * std::abs(wanted)) << x[i];
    }
  });
}

}  // namespace
}  // namespace sluice
