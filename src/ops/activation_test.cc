// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#include <limits>
#include <numbers>

#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

constexpr Activation kAll[] = {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu};

double exact(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGelu:
      return x / 2 * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh: {
      const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));  // = x / 2 * (1 + tanh(u)), without its cancellation
    }
    case Activation::kRelu:
      return std::max(x, 0.0);
  }
  return 0;
}

// By central differences; relu by its definition, which they smear at zero.
double exact_slope(Activation activation, double x) {
  if (activation == Activation::kRelu) return x > 0 ? 1 : 0;
  const double h = 1e-5;
  return (exact(activation, x + h) - exact(activation, x - h)) / (2 * h);
}

// Every activation of many x, each element against its own size: no element hides behind a larger one.
TEST(Activation, ForwardIsAccurateForEveryElement) {
  Doubles x;
  for (double value = -13; value < 13; value += 0.00371) x.push_back(static_cast<float>(value));
  for (double value = 1e-30; value < 1e4; value *= 3.7) {
    x.push_back(static_cast<float>(value));
    if (value < 13) x.push_back(static_cast<float>(-value));
  }
  const auto size = static_cast<std::int64_t>(x.size());
  const TestTensor in(DType::kF32, {1, size}, x);
  on_every_target([&] {
    for (const Activation activation : kAll) {
      const TestTensor out(DType::kF32, {1, size});
      run_on_cpu(2, [&](Stream& stream) {
        activation_forward(stream, {.activation = activation, .gating = Gating::kPlain, .x = in, .h = out});
      });
      const Doubles h = out.doubles();
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double wanted = exact(activation, x[i]);
        // Far out, the rounding of x^3 shows in its exponential.
        const bool far_out = activation == Activation::kGeluTanh && x[i] < -2;
        const double allowed = std::abs(wanted) * (far_out ? 1e-5 : 6e-7) + 1e-37;
        ASSERT_NEAR(h[i], wanted, allowed) << static_cast<int>(activation) << " of " << x[i];
      }
    }
  });
}

struct Case {
  DType dtype;
  Gating gating;
  std::int64_t tokens;
  std::int64_t width;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Gating gating : {Gating::kPlain, Gating::kGated}) {
      for (const std::int64_t width : {1, 7, 33, 100, 5000}) all.push_back({dtype, gating, 3, width});
    }
  }
  return all;
}

TEST(Activation, GatedOrPlainForwardAndBackwardAreTheDefinition) {
  on_every_target([] {
    for (const Case& c : cases()) {
      const bool gated = c.gating == Gating::kGated;
      const std::int64_t x_width = gated ? 2 * c.width : c.width;
      const TestTensor x = random_tensor(c.dtype, {c.tokens, x_width}, 1, 2);
      const TestTensor dh = random_tensor(c.dtype, {c.tokens, c.width}, 2);
      const Doubles x_values = x.doubles();
      const Doubles dh_values = dh.doubles();
      for (const Activation activation : kAll) {
        SCOPED_TRACE(std::string(label(c.dtype)) + " width " + std::to_string(c.width) +
                     (gated ? " gated " : " plain ") + std::to_string(static_cast<int>(activation)));
        Doubles exact_h;
        Doubles exact_dx(x_values.size());
        for (std::size_t idx = 0; idx < dh_values.size(); ++idx) {
          const std::size_t gate_idx = idx / static_cast<std::size_t>(c.width) * static_cast<std::size_t>(x_width) +
                                       idx % static_cast<std::size_t>(c.width);
          const double up = gated ? x_values[gate_idx + static_cast<std::size_t>(c.width)] : 1;
          const double act = exact(activation, x_values[gate_idx]);
          exact_h.push_back(act * up);
          exact_dx[gate_idx] = dh_values[idx] * up * exact_slope(activation, x_values[gate_idx]);
          if (gated) exact_dx[gate_idx + static_cast<std::size_t>(c.width)] = dh_values[idx] * act;
        }
        const TestTensor h(c.dtype, {c.tokens, c.width});
        const TestTensor dx(c.dtype, {c.tokens, x_width});
        const TestTensor in_place = x.clone();
        run_on_cpu(2, [&](Stream& stream) {
          activation_forward(stream, {.activation = activation, .gating = c.gating, .x = x, .h = h});
          activation_backward(stream, {.activation = activation, .gating = c.gating, .x = x, .dh = dh, .dx = dx});
          activation_backward(stream,
                              {.activation = activation, .gating = c.gating, .x = in_place, .dh = dh, .dx = in_place});
        });
        expect_close(h, exact_h, 3e-7);
        expect_close(dx, exact_dx, 5e-7);
        EXPECT_EQ(in_place.bytes(), dx.bytes());
      }
    }
  });
}

TEST(Activation, NanStaysNanAndInfinitySaturates) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  on_every_target([&] {
    for (const Activation activation : kAll) {
      const TestTensor x(DType::kF32, {1, 3}, {std::nan(""), kInf, -1e30});
      const TestTensor h(DType::kF32, {1, 3});
      run_on_cpu(1, [&](Stream& stream) {
        activation_forward(stream, {.activation = activation, .gating = Gating::kPlain, .x = x, .h = h});
      });
      EXPECT_TRUE(std::isnan(h.doubles()[0]));
      EXPECT_EQ(h.doubles()[1], kInf);
      EXPECT_EQ(h.doubles()[2], 0);
    }
  });
}

}  // namespace
}  // namespace sluice
