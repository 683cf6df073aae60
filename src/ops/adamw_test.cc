// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"

#include <bit>
#include <limits>

#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

struct State {
  Doubles weight, m, v;
};

// One step by the definition, in double.
void exact_step(State& state, const Doubles& grad, const AdamWSettings& with) {
  const auto step = static_cast<double>(with.step);
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const double g = grad[i] * static_cast<double>(with.grad_scale);
    state.m[i] = with.beta1 * state.m[i] + (1 - with.beta1) * g;
    state.v[i] = with.beta2 * state.v[i] + (1 - with.beta2) * g * g;
    const double m_hat = state.m[i] / (1 - std::pow(with.beta1, step));
    const double v_hat = state.v[i] / (1 - std::pow(with.beta2, step));
    state.weight[i] -= with.learning_rate * with.weight_decay * state.weight[i];
    state.weight[i] -= with.learning_rate * m_hat / (std::sqrt(v_hat) + with.eps);
  }
}

AdamWSettings settings_of(std::int64_t step) {
  return {.learning_rate = 0.05,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .eps = 1e-8,
          .weight_decay = 0.1,
          .step = step,
          .grad_scale = 0.3F};
}

// A master cut into a bf16 and what trails it.
struct Halves {
  TestTensor weight, trailing;
};

Halves halves_of(const std::vector<float>& masters) {
  const auto size = static_cast<std::int64_t>(masters.size());
  Halves halves = {{DType::kBF16, {size}}, {DType::kBF16, {size}}};
  for (std::size_t i = 0; i < masters.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(masters[i]);
    halves.weight.view().as<std::uint16_t>()[i] = static_cast<std::uint16_t>((bits + 0x8000U) >> 16);
    halves.trailing.view().as<std::uint16_t>()[i] = static_cast<std::uint16_t>(bits & 0xFFFFU);
  }
  return halves;
}

std::vector<float> masters_of(const Halves& halves) {
  std::vector<float> masters;
  const auto weight = halves.weight.view().as<std::uint16_t>();
  const auto trailing = halves.trailing.view().as<std::int16_t>();
  for (std::size_t i = 0; i < weight.size(); ++i) {
    const std::int64_t bits = (static_cast<std::int64_t>(weight[i]) << 16) + trailing[i];
    masters.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return masters;
}

std::vector<float> floats_of(const TestTensor& tensor) {
  const auto values = tensor.view().as<float>();
  return {values.begin(), values.end()};
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
        State exact = {weight.doubles(), m.doubles(), v.doubles()};
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

}  // namespace
}  // namespace sluice
