// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"

#include <bit>
#include <limits>

#include "ops/host_optimizer.h"
#include "ops/test_masters.h"
#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

AdamWSettings settings_of(std::int64_t step) {
  return {.learning_rate = 0.05,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .eps = 1e-8,
          .weight_decay = 0.1,
          .step = step,
          .grad_scale = 0.3F};
}

TEST(AdamW, FiveStepsAreTheDefinitionForWholeAndSplitMasters) {
  on_every_target([] {
    for (const DType grad_dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t size : {1, 7, 33, 100, 40000}) {
        SCOPED_TRACE(std::string(label(grad_dtype)) + " size " + std::to_string(size));
        const TestTensor weight = random_tensor(DType::kF32, {size}, 1, 0.1);
        const Halves halves = halves_of(floats_of(weight));
        const TestTensor m = random_tensor(DType::kF32, {size}, 2, 1e-3);
        TestTensor v = random_tensor(DType::kF32, {size}, 3, 1e-3);
        for (float& value : v.view().as<float>()) value *= value;
        const TestTensor split_m = m.clone();
        const TestTensor split_v = v.clone();
        AdamWState exact = {weight.doubles(), m.doubles(), v.doubles()};
        for (std::int64_t step = 1; step <= 5; ++step) {
          const TestTensor grad = random_tensor(grad_dtype, {size}, static_cast<std::uint64_t>(10 + step), 1e-2);
          exact_step(exact, grad.doubles(), settings_of(step));
          run_on_cpu(2, [&](Stream& stream) {
            adamw(stream,
                  {.settings = settings_of(step), .weight = weight, .trailing = {}, .grad = grad, .m = m, .v = v});
            adamw(stream, {.settings = settings_of(step),
                           .weight = halves.weight,
                           .trailing = halves.trailing,
                           .grad = grad,
                           .m = split_m,
                           .v = split_v});
          });
        }
        expect_close(weight, exact.weight, 1e-6);
        expect_close(m, exact.m, 3e-7);
        expect_close(v, exact.v, 5e-7);
        EXPECT_EQ(masters_of(halves), floats_of(weight));  // to the bit
        EXPECT_EQ(split_m.bytes(), m.bytes());
        EXPECT_EQ(split_v.bytes(), v.bytes());
      }
    }
  });
}

// A learning rate so small that a bf16 weight alone would never move.
TEST(AdamW, SplitMastersKeepUpdatesThatTheirUpperHalfCannotShow) {
  const Halves halves = halves_of({1.0F});
  const TestTensor grad(DType::kF32, {1}, {1});
  const TestTensor m(DType::kF32, {1});
  const TestTensor v(DType::kF32, {1});
  for (std::int64_t step = 1; step <= 100; ++step) {
    run_on_cpu(1, [&](Stream& stream) {
      adamw(stream, {.settings = {.learning_rate = 1e-5, .step = step},
                     .weight = halves.weight,
                     .trailing = halves.trailing,
                     .grad = grad,
                     .m = m,
                     .v = v});
    });
  }
  EXPECT_NEAR(static_cast<double>(masters_of(halves)[0]), 1 - 1e-3, 1e-5);
}

// No update (a rate of 0): what is cut and joined must come back as it was, the upper half being the nearest bf16.
TEST(AdamW, CuttingAndJoiningKeepsEveryBit) {
  std::vector<float> masters = {
      0.0F,       -0.0F,      1.0F, -1.0F, std::numeric_limits<float>::max(), -std::numeric_limits<float>::infinity(),
      0x1.008p0F, -0x1.018p0F};
  Random random(5);
  while (masters.size() < 1001) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
    if (std::isfinite(value) && std::abs(value) > 1e-37F) masters.push_back(value);
  }
  const auto size = static_cast<std::int64_t>(masters.size());
  on_every_target([&] {
    const Halves halves = halves_of(masters);
    const TestTensor grad(DType::kF32, {size}, Doubles(masters.size(), 1));
    const TestTensor m(DType::kF32, {size});
    const TestTensor v(DType::kF32, {size});
    run_on_cpu(1, [&](Stream& stream) {
      adamw(stream, {.settings = {.learning_rate = 0},
                     .weight = halves.weight,
                     .trailing = halves.trailing,
                     .grad = grad,
                     .m = m,
                     .v = v});
    });
    EXPECT_EQ(masters_of(halves), masters);
    EXPECT_EQ(halves.weight.bytes(), halves_of(masters).weight.bytes());
    EXPECT_EQ(halves.trailing.bytes(), halves_of(masters).trailing.bytes());
  });
}

TEST(AdamW, NanOfAnyPayloadShowsInTheUpperHalf) {
  on_every_target([] {
    const Halves halves = halves_of({1.0F});
    const TestTensor grad(DType::kF32, {1});
    grad.view().as<std::uint32_t>()[0] = 0x7FFFFFFFU;  // adding half a unit of bf16 would make it -0
    const TestTensor m(DType::kF32, {1});
    const TestTensor v(DType::kF32, {1});
    run_on_cpu(1, [&](Stream& stream) {
      adamw(stream,
            {.settings = {}, .weight = halves.weight, .trailing = halves.trailing, .grad = grad, .m = m, .v = v});
    });
    EXPECT_TRUE(std::isnan(halves.weight.doubles()[0]));
  });
}

// In the order that torch computes, in float: gradients whose square has no float, and moments below the normal floats.
TEST(AdamW, HugeAndTinyGradientsAreTorchs) {
  const std::vector<float> gradients = {3e19F, -2e20F, 1e-21F, 7e-23F, 1e-40F, -1e-45F, 0.0F};
  const auto size = static_cast<std::int64_t>(gradients.size());
  on_every_target([&] {
    const TestTensor weight(DType::kF32, {size}, Doubles(gradients.size(), 0.5));
    const TestTensor grad(DType::kF32, {size}, Doubles(gradients.begin(), gradients.end()));
    const TestTensor m(DType::kF32, {size});
    const TestTensor v(DType::kF32, {size});
    run_on_cpu(1, [&](Stream& stream) {
      adamw(stream, {.settings = {.learning_rate = 0.01}, .weight = weight, .grad = grad, .m = m, .v = v});
    });
    const auto m_share = static_cast<float>(1 - 0.9);
    const auto v_share = static_cast<float>(1 - 0.999);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const float expected_m = gradients[i] * m_share;
      const float expected_v = gradients[i] * v_share * gradients[i];
      EXPECT_EQ(m.view().as<float>()[i], expected_m);
      EXPECT_NEAR(v.view().as<float>()[i], expected_v, 2e-7 * static_cast<double>(expected_v));
      const double denominator = std::sqrt(static_cast<double>(expected_v)) / std::sqrt(1 - 0.999) + 1e-8;
      EXPECT_NEAR(weight.view().as<float>()[i], 0.5 - 0.01 / 0.1 * static_cast<double>(expected_m) / denominator, 1e-7);
    }
  });
}

TEST(AdamW, PartsAtOnceGiveTheBitsOfOneAfterTheOther) {
  struct Tensors {
    TestTensor weight, grad, m, v;
  };
  std::vector<Tensors> one_by_one;
  std::vector<Tensors> together;
  std::uint64_t seed = 1;
  for (const std::int64_t size : {100000, 1, 40000, 0, 33}) {
    Tensors made{.weight = random_tensor(DType::kF32, {size}, seed, 0.1),
                 .grad = random_tensor(DType::kF32, {size}, seed + 1, 1e-2),
                 .m = random_tensor(DType::kF32, {size}, seed + 2, 1e-3),
                 .v = TestTensor(DType::kF32, {size})};
    together.push_back({made.weight.clone(), made.grad.clone(), made.m.clone(), made.v.clone()});
    one_by_one.push_back(std::move(made));
    seed += 3;
  }
  const auto args_of = [](const Tensors& of, std::size_t idx) {
    return AdamW{.settings = settings_of(static_cast<std::int64_t>(idx) + 1),
                 .weight = of.weight,
                 .grad = of.grad,
                 .m = of.m,
                 .v = of.v};
  };
  run_on_cpu(3, [&](Stream& stream) {
    std::vector<AdamW> parts;
    for (std::size_t idx = 0; idx < together.size(); ++idx) {
      parts.push_back(args_of(together[idx], idx));
      adamw(stream, args_of(one_by_one[idx], idx));
    }
    adamw(stream, parts);
  });
  for (std::size_t idx = 0; idx < together.size(); ++idx) {
    EXPECT_EQ(together[idx].weight.bytes(), one_by_one[idx].weight.bytes()) << idx;
    EXPECT_EQ(together[idx].m.bytes(), one_by_one[idx].m.bytes()) << idx;
    EXPECT_EQ(together[idx].v.bytes(), one_by_one[idx].v.bytes()) << idx;
  }
}

TEST(AdamW, OnHostMemoryGivesTheBitsOfAStream) {
  const TestTensor weight = random_tensor(DType::kF32, {70000}, 1);
  const TestTensor grad = random_tensor(DType::kF32, {70000}, 2);
  const TestTensor m(DType::kF32, {70000});
  const TestTensor v(DType::kF32, {70000});
  const TestTensor host_weight = weight.clone();
  const TestTensor host_m = m.clone();
  const TestTensor host_v = v.clone();
  run_on_cpu(1, [&](Stream& stream) {
    adamw(stream, {.settings = settings_of(1), .weight = weight, .grad = grad, .m = m, .v = v});
  });
  WorkerTeam team(3);
  adamw(team, {.settings = settings_of(1), .weight = host_weight, .grad = grad, .m = host_m, .v = host_v});
  EXPECT_EQ(host_weight.bytes(), weight.bytes());
  EXPECT_EQ(host_m.bytes(), m.bytes());
  EXPECT_EQ(host_v.bytes(), v.bytes());
}

}  // namespace
}  // namespace sluice
