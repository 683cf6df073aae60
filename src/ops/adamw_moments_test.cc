// SPDX-License-Identifier: Apache-2.0
// Moments of fewer bits: rounded stochastically to bf16, or 8-bit codes in blocks.
#include <cmath>
#include <limits>
#include <span>

#include "ops/adamw.h"
#include "ops/dynamic_map.h"
#include "ops/host_optimizer.h"
#include "ops/test_masters.h"
#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

AdamWSettings settings_of(std::int64_t step) {
  return {.learning_rate = 0.05, .beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1, .step = step, .grad_scale = 0.3F};
}

std::int64_t blocks_of(std::int64_t size) { return (size + kMomentBlock - 1) / kMomentBlock; }

// Moments in any precision, zeros at first.
struct Moments {
  Moments(DType dtype, std::int64_t size)
      : m(dtype, {size}),
        v(dtype, {size}),
        m_absmax(DType::kF32, {dtype == DType::kU8 ? blocks_of(size) : 0}),
        v_absmax(DType::kF32, {dtype == DType::kU8 ? blocks_of(size) : 0}) {}

  TestTensor m, v, m_absmax, v_absmax;
};

Doubles decoded(const TestTensor& moment, const TestTensor& absmax, CodeRange range) {
  if (moment.view().dtype() != DType::kU8) return moment.doubles();
  const std::array<float, 256> map = dynamic_map(range);
  const auto codes = moment.view().as<std::uint8_t>();
  Doubles values;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    values.push_back(static_cast<double>(absmax.view().as<float>()[i / kMomentBlock]) *
                     static_cast<double>(map[codes[i]]));
  }
  return values;
}

AdamW part_of(const AdamW& whole, std::int64_t first, std::int64_t end) {
  const auto cut = [=](const TensorView& view) {
    return view.bytes().empty() ? TensorView() : view.rows(first, end - first);
  };
  const auto cut_blocks = [=](const TensorView& view) {
    return view.bytes().empty() ? TensorView() : view.rows(first / kMomentBlock, blocks_of(end) - first / kMomentBlock);
  };
  AdamW part = whole;
  part.weight = cut(whole.weight);
  part.trailing = cut(whole.trailing);
  part.grad = cut(whole.grad);
  part.m = cut(whole.m);
  part.v = cut(whole.v);
  part.m_absmax = cut_blocks(whole.m_absmax);
  part.v_absmax = cut_blocks(whole.v_absmax);
  part.first_element = whole.first_element + first;
  return part;
}

struct Training {
  Training(DType moments_dtype, DType grad_dtype, std::int64_t size)
      : weight(random_tensor(DType::kF32, {size}, 1, 0.1)),
        halves(halves_of(floats_of(weight))),
        grad(random_tensor(grad_dtype, {size}, 2, 1e-2)),
        moments(moments_dtype, size),
        split_moments(moments_dtype, size) {}

  AdamW whole_args(std::int64_t step) const {
    return {.settings = settings_of(step),
            .weight = weight,
            .trailing = {},
            .grad = grad,
            .m = moments.m,
            .v = moments.v,
            .m_absmax = moments.m_absmax,
            .v_absmax = moments.v_absmax,
            .seed = 77};
  }
  AdamW split_args(std::int64_t step) const {
    AdamW args = whole_args(step);
    args.weight = halves.weight;
    args.trailing = halves.trailing;
    args.m = split_moments.m;
    args.v = split_moments.v;
    args.m_absmax = split_moments.m_absmax;
    args.v_absmax = split_moments.v_absmax;
    return args;
  }
  std::vector<std::vector<std::byte>> split_bytes() const {
    return {halves.weight.bytes(),   halves.trailing.bytes(),        split_moments.m.bytes(),
            split_moments.v.bytes(), split_moments.m_absmax.bytes(), split_moments.v_absmax.bytes()};
  }

  TestTensor weight;
  Halves halves;
  TestTensor grad;
  Moments moments;
  Moments split_moments;
};

// From what is stored before a step, the definition says what is stored after it, but for the last rounding.
TEST(AdamWMoments, EachStepIsTheDefinitionUpToTheRoundingOfTheMoments) {
  on_every_target([] {
    for (const DType moments_dtype : {DType::kBF16, DType::kU8}) {
      for (const DType grad_dtype : {DType::kF32, DType::kBF16}) {
        for (const std::int64_t size : {1, 33, 256, 5000}) {
          SCOPED_TRACE(std::string(name(moments_dtype)) + " moments, size " + std::to_string(size));
          Training run(moments_dtype, grad_dtype, size);
          for (std::int64_t step = 1; step <= 4; ++step) {
            run.grad = random_tensor(grad_dtype, {size}, static_cast<std::uint64_t>(10 + step), 1e-2);
            AdamWState exact = {run.weight.doubles(), decoded(run.moments.m, run.moments.m_absmax, CodeRange::kSigned),
                                decoded(run.moments.v, run.moments.v_absmax, CodeRange::kUnsigned)};
            exact_step(exact, run.grad.doubles(), settings_of(step));
            run_on_cpu(2, [&](Stream& stream) {
              adamw(stream, run.whole_args(step));
              adamw(stream, run.split_args(step));
            });
            expect_close(run.weight, exact.weight, 1e-6);
            const Doubles m = decoded(run.moments.m, run.moments.m_absmax, CodeRange::kSigned);
            const Doubles v = decoded(run.moments.v, run.moments.v_absmax, CodeRange::kUnsigned);
            for (std::size_t i = 0; i < m.size(); ++i) {
              double m_unit = std::abs(exact.m[i]) * 0x1p-7;
              double v_unit = exact.v[i] * 0x1p-7;
              if (moments_dtype == DType::kU8) {
                // Half of the widest bucket of the decade, and of the gaps around 0.
                const double m_absmax = run.moments.m_absmax.doubles()[i / kMomentBlock];
                const double v_absmax = run.moments.v_absmax.doubles()[i / kMomentBlock];
                m_unit = std::max(std::abs(exact.m[i]) * 0.5, m_absmax * 6e-7);
                v_unit = std::max(exact.v[i] * 0.5, v_absmax * 4e-7);
                if (std::abs(exact.m[i]) > 0.1 * m_absmax) m_unit = m_absmax * 0.0071;
                if (exact.v[i] > 0.1 * v_absmax) v_unit = v_absmax * 0.0036;
              }
              ASSERT_NEAR(m[i], exact.m[i], m_unit + 1e-10) << i;
              ASSERT_NEAR(v[i], exact.v[i], v_unit + 1e-12) << i;
            }
          }
          EXPECT_EQ(masters_of(run.halves), floats_of(run.weight));  // to the bit
          EXPECT_EQ(run.split_moments.m.bytes(), run.moments.m.bytes());
          EXPECT_EQ(run.split_moments.v.bytes(), run.moments.v.bytes());
          EXPECT_EQ(run.split_moments.m_absmax.bytes(), run.moments.m_absmax.bytes());
          EXPECT_EQ(run.split_moments.v_absmax.bytes(), run.moments.v_absmax.bytes());
        }
      }
    }
  });
}

TEST(AdamWMoments, PartsOfASliceGetTheBitsOfTheWhole) {
  constexpr std::int64_t kSize = 101003;
  const std::vector<std::int64_t> any_cuts = {0, 1, 18, 1000, 40003, 40004, kSize};
  const std::vector<std::int64_t> block_cuts = {0, 256, 1024, 33024, 99840, kSize};
  // The second beginning makes a run of random bits cross 2^32.
  for (const std::int64_t first_element : {std::int64_t{0}, (std::int64_t{1} << 32) - 33280}) {
    on_every_target([&] {
      for (const DType moments_dtype : {DType::kF32, DType::kBF16, DType::kU8}) {
        SCOPED_TRACE(std::string(name(moments_dtype)) + " moments");
        const auto run_with = [&](std::size_t num_threads, std::span<const std::int64_t> cuts) {
          const Training run(moments_dtype, DType::kBF16, kSize);
          WorkerTeam team(num_threads);
          for (std::int64_t step = 1; step <= 2; ++step) {
            AdamW whole = run.split_args(step);
            whole.first_element = first_element;
            for (std::size_t i = 0; i + 1 < cuts.size(); ++i) adamw(team, part_of(whole, cuts[i], cuts[i + 1]));
          }
          return run.split_bytes();
        };
        const std::vector<std::int64_t> no_cuts = {0, kSize};
        const auto whole = run_with(1, no_cuts);
        EXPECT_TRUE(run_with(3, no_cuts) == whole);
        EXPECT_TRUE(run_with(2, moments_dtype == DType::kU8 ? block_cuts : any_cuts) == whole);
      }
    });
  }
}

// One update that makes every m the gradient and every v its square; whether each was rounded up.
struct Decisions {
  std::vector<bool> m, v;
};
Decisions decisions_of(float gradient, std::uint64_t seed, std::int64_t step, std::int64_t first_element) {
  constexpr std::int64_t kSize = 1 << 16;
  const TestTensor weight(DType::kF32, {kSize});
  const TestTensor grad(DType::kF32, {kSize}, Doubles(kSize, static_cast<double>(gradient)));
  const Moments moments(DType::kBF16, kSize);
  WorkerTeam team(1);
  adamw(team, {.settings = {.beta1 = 0, .beta2 = 0, .step = step},
               .weight = weight,
               .grad = grad,
               .m = moments.m,
               .v = moments.v,
               .seed = seed,
               .first_element = first_element});
  Decisions decisions;
  for (const double m : moments.m.doubles()) decisions.m.push_back(m > static_cast<double>(gradient));
  const double square = static_cast<double>(gradient) * static_cast<double>(gradient);
  for (const double v : moments.v.doubles()) decisions.v.push_back(v > square);
  return decisions;
}

double share_of(const std::vector<bool>& decisions) {
  return static_cast<double>(std::count(decisions.begin(), decisions.end(), true)) /
         static_cast<double>(decisions.size());
}

double share_of_both(const std::vector<bool>& a, const std::vector<bool>& b, std::size_t shift = 0) {
  std::size_t num_both = 0;
  for (std::size_t i = 0; i + shift < a.size(); ++i) num_both += a[i] && b[i + shift] ? 1 : 0;
  return static_cast<double>(num_both) / static_cast<double>(a.size() - shift);
}

// 65536 decisions: a standard deviation of at most 0.002.
TEST(AdamWMoments, RoundingGoesUpWithTheOddsOfWhereTheNumberLies) {
  on_every_target([] {
    const float gradient = 1 + 0x1p-8F + 0x1p-9F;  // three quarters of the way to the next bf16
    const double square = static_cast<double>(gradient) * static_cast<double>(gradient);
    const double v_odds = (square - 1) * 0x1p7 - 1;
    const Decisions decisions = decisions_of(gradient, 1, 1, 0);
    EXPECT_NEAR(share_of(decisions.m), 0.75, 0.008);
    EXPECT_NEAR(share_of(decisions.v), v_odds, 0.008);
    EXPECT_NEAR(share_of_both(decisions.m, decisions.v), 0.75 * v_odds, 0.008);
  });
}

TEST(AdamWMoments, RoundingIsIndependentBetweenElementsStepsAndSlices) {
  const float gradient = 1 + 0x1p-8F;  // half way
  const Decisions first = decisions_of(gradient, 1, 1, 0);
  EXPECT_NEAR(share_of_both(first.m, decisions_of(gradient, 1, 2, 0).m), 0.25, 0.008);
  EXPECT_NEAR(share_of_both(first.m, decisions_of(gradient, 2, 1, 0).m), 0.25, 0.008);
  EXPECT_NEAR(share_of_both(first.m, decisions_of(gradient, 1, 1, std::int64_t{1} << 32).m), 0.25, 0.008);
  EXPECT_NEAR(share_of_both(first.m, decisions_of(gradient, 1, 1, 1 << 16).m), 0.25, 0.008);
  for (const std::size_t shift : {1, 2, 16, 256, 32768}) {
    EXPECT_NEAR(share_of_both(first.m, first.m, shift), 0.25, 0.01) << "elements " << shift << " apart";
  }
}

TEST(AdamWMoments, WhatABf16CanHoldIsNotRounded) {
  on_every_target([] {
    const Decisions decisions = decisions_of(1.5F, 1, 1, 0);  // and its square, 2.25
    EXPECT_EQ(share_of(decisions.m), 0);
    EXPECT_EQ(share_of(decisions.v), 0);
    const TestTensor weight(DType::kF32, {3});
    const TestTensor grad(DType::kF32, {3}, {std::numeric_limits<double>::infinity(), std::nan(""), 0});
    const Moments moments(DType::kBF16, 3);
    WorkerTeam team(1);
    adamw(team, {.weight = weight, .grad = grad, .m = moments.m, .v = moments.v});
    EXPECT_TRUE(std::isinf(moments.v.doubles()[0]));
    EXPECT_TRUE(std::isnan(moments.m.doubles()[1]));
    EXPECT_TRUE(std::isnan(moments.v.doubles()[1]));
    EXPECT_EQ(moments.m.doubles()[2], 0);
    EXPECT_EQ(moments.v.doubles()[2], 0);
    EXPECT_EQ(weight.doubles()[2], 0);
  });
}

// m is the gradient and v its square: every code must be the nearest one, by a search through the map.
TEST(AdamWMoments, CodesAreTheNearestInTheMap) {
  constexpr std::int64_t kSize = 64 * kMomentBlock;
  const std::array<float, 256> signed_map = dynamic_map(CodeRange::kSigned);
  const std::array<float, 256> unsigned_map = dynamic_map(CodeRange::kUnsigned);
  Random random(3);
  Doubles gradients;
  for (std::int64_t i = 0; i < kSize; ++i) {
    const double exponent = static_cast<double>(random.below(8000)) / 1000 - 7.5;
    const double value = std::pow(10, exponent) * 1e-3;
    gradients.push_back(i % kMomentBlock == 5 ? 4e-3 : random.one_in(2) ? value : -value);
  }
  on_every_target([&] {
    for (const double scale : {1.0, 1e-17}) {  // squares down to floats that are not normal
      Doubles scaled = gradients;
      for (double& value : scaled) value *= scale;
      const TestTensor weight(DType::kF32, {kSize});
      const TestTensor grad(DType::kF32, {kSize}, scaled);
      const Moments moments(DType::kU8, kSize);
      WorkerTeam team(1);
      adamw(team, {.settings = {.beta1 = 0, .beta2 = 0},
                   .weight = weight,
                   .grad = grad,
                   .m = moments.m,
                   .v = moments.v,
                   .m_absmax = moments.m_absmax,
                   .v_absmax = moments.v_absmax});
      const auto expect_nearest = [&](const TestTensor& codes, const TestTensor& absmax,
                                      const std::array<float, 256>& map, std::size_t i, float value) {
        const double largest = absmax.view().as<float>()[i / kMomentBlock];
        const auto distance = [&](float entry) {
          return std::abs(static_cast<double>(value) / largest - static_cast<double>(entry));
        };
        double nearest = 2;
        for (const float entry : map) nearest = std::min(nearest, distance(entry));
        const std::uint8_t code = codes.view().as<std::uint8_t>()[i];
        ASSERT_NEAR(distance(map[code]), nearest, 2e-7 * std::abs(static_cast<double>(value)) / largest + 1e-13)
            << "element " << i << ", " << value << " of " << largest << ", code " << int{code};
      };
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        const float gradient = grad.view().as<float>()[i];
        const float square = gradient * gradient;
        ASSERT_EQ(moments.m_absmax.view().as<float>()[i / kMomentBlock], static_cast<float>(4e-3 * scale));
        expect_nearest(moments.m, moments.m_absmax, signed_map, i, gradient);
        const float v_absmax = moments.v_absmax.view().as<float>()[i / kMomentBlock];
        if (static_cast<double>(square) < 1.7e-7 * static_cast<double>(v_absmax)) {
          ASSERT_EQ(moments.v.view().as<std::uint8_t>()[i], square > 0 ? 1 : 0);  // never 0, unless it is
        } else {
          expect_nearest(moments.v, moments.v_absmax, unsigned_map, i, square);
        }
      }
    }
  });
}

TEST(AdamWMoments, NanOfOneElementShowsInItsBlockAndNoOther) {
  on_every_target([] {
    const std::int64_t size = 2 * kMomentBlock + 10;
    const TestTensor weight(DType::kF32, {size}, Doubles(static_cast<std::size_t>(size), 1));
    const TestTensor grad(DType::kF32, {size}, Doubles(static_cast<std::size_t>(size), 1e-2));
    grad.view().as<float>()[300] = std::numeric_limits<float>::quiet_NaN();
    const Moments moments(DType::kU8, size);
    WorkerTeam team(1);
    for (std::int64_t step = 1; step <= 2; ++step) {
      adamw(team, {.settings = settings_of(step),
                   .weight = weight,
                   .grad = grad,
                   .m = moments.m,
                   .v = moments.v,
                   .m_absmax = moments.m_absmax,
                   .v_absmax = moments.v_absmax});
    }
    for (std::int64_t i = 0; i < size; ++i) {
      EXPECT_EQ(std::isnan(weight.doubles()[static_cast<std::size_t>(i)]), i / kMomentBlock == 1) << i;
    }
  });
}

}  // namespace
}  // namespace sluice
