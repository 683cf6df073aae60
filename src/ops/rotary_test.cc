// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary.h"

#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

struct Case {
  DType dtype;
  std::int64_t tokens;
  std::int64_t width;
  std::int64_t num_heads;
  std::int64_t head_dim;
  std::int64_t half;
};

TestTensor table(const Doubles& positions, std::int64_t half, double (*function)(double)) {
  Doubles values;
  for (const double position : positions) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double frequency = std::pow(10000, -static_cast<double>(i) / static_cast<double>(half));
      values.push_back(function(position * frequency));
    }
  }
  return {DType::kF32, {static_cast<std::int64_t>(positions.size()), half}, values};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    all.push_back({dtype, 33, 3 * 64, 3, 64, 32});
    all.push_back({dtype, 7, 100, 2, 14, 7});    // columns beyond the heads
    all.push_back({dtype, 7, 100, 1, 100, 33});  // columns of a head beyond both halves
    all.push_back({dtype, 1, 2, 1, 2, 1});
  }
  return all;
}

// Pairs (i, i + half) as complex numbers, turned.
Doubles turned(const Case& c, Doubles x, const Doubles& positions, double direction) {
  for (std::int64_t token = 0; token < c.tokens; ++token) {
    for (std::int64_t head = 0; head < c.num_heads; ++head) {
      for (std::int64_t i = 0; i < c.half; ++i) {
        const double frequency = std::pow(10000, -static_cast<double>(i) / static_cast<double>(c.half));
        const double angle = direction * positions[static_cast<std::size_t>(token)] * frequency;
        double& re = x[static_cast<std::size_t>(token * c.width + head * c.head_dim + i)];
        double& im = x[static_cast<std::size_t>(token * c.width + head * c.head_dim + i + c.half)];
        const double old_re = re;
        re = old_re * std::cos(angle) - im * std::sin(angle);
        im = old_re * std::sin(angle) + im * std::cos(angle);
      }
    }
  }
  return x;
}

TEST(Rotary, TurnsHalvesOfHeadsByThePositionAndBack) {
  on_every_target([] {
    for (const Case& c : cases()) {
      SCOPED_TRACE(std::string(label(c.dtype)) + " half " + std::to_string(c.half));
      const Doubles positions = random_ids({c.tokens}, 50, 2).doubles();
      const TestTensor cos = table(positions, c.half, [](double angle) { return std::cos(angle); });
      const TestTensor sin = table(positions, c.half, [](double angle) { return std::sin(angle); });
      for (const Turn turn : {Turn::kForward, Turn::kBackward}) {
        const TestTensor heads = random_tensor(c.dtype, {c.tokens, c.width}, 1);
        const Doubles exact = turned(c, heads.doubles(), positions, turn == Turn::kForward ? 1.0 : -1.0);
        run_on_cpu(2, [&](Stream& stream) {
          rotary(
              stream,
              {.heads = heads, .cos = cos, .sin = sin, .num_heads = c.num_heads, .head_dim = c.head_dim, .turn = turn});
        });
        expect_close(heads, exact, 2e-7);
      }
    }
  });
}

}  // namespace
}  // namespace sluice
