// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include <functional>
#include <numeric>

#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

constexpr float kEps = 1e-5F;

// One run in double, by the definition.
Doubles exact_run(NormKind kind, const Doubles& x, const Doubles& weight, const Doubles& bias) {
  const auto dim = static_cast<double>(x.size());
  const double mean = kind == NormKind::kLayer ? std::accumulate(x.begin(), x.end(), 0.0) / dim : 0;
  double variance = 0;
  for (const double value : x) variance += (value - mean) * (value - mean) / dim;
  Doubles y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double factor = kind == NormKind::kRmsPlusOne ? 1 + weight[i] : weight[i];
    y[i] = (x[i] - mean) / std::sqrt(variance + static_cast<double>(kEps)) * factor + (bias.empty() ? 0 : bias[i]);
  }
  return y;
}

struct Case {
  NormKind kind;
  DType dtype;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t dim;
  NormColumns columns;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const NormKind kind : {NormKind::kRms, NormKind::kRmsPlusOne, NormKind::kLayer}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t dim : {3, 7, 33, 100, 2500}) all.push_back({kind, dtype, 5, dim, dim, {}});
      all.push_back({kind, dtype, 70, 24, 24, {}});                              // several blocks of rows
      all.push_back({kind, dtype, 3, 100, 20, {}});                              // heads that fill the row
      all.push_back({kind, dtype, 40, 45, 9, {.first_col = 5, .num_runs = 3}});  // heads within it
    }
  }
  return all;
}

std::string text(const Case& c) {
  return std::to_string(static_cast<int>(c.kind)) + " " + label(c.dtype) + " dim " + std::to_string(c.dim);
}

// f(index of the run's first element) for every run.
void over_runs(const Case& c, const std::function<void(std::size_t)>& f) {
  const std::int64_t runs = c.columns.num_runs != 0 ? c.columns.num_runs : (c.width - c.columns.first_col) / c.dim;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    for (std::int64_t run = 0; run < runs; ++run) {
      f(static_cast<std::size_t>(row * c.width + c.columns.first_col + run * c.dim));
    }
  }
}

struct Inputs {
  explicit Inputs(const Case& c)
      : x(random_tensor(c.dtype, {c.rows, c.width}, 1, 2)),
        weight(random_tensor(c.dtype, {c.dim}, 2)),
        bias(random_tensor(c.dtype, {c.dim}, 3)),
        dy(random_tensor(c.dtype, {c.rows, c.width}, 4)) {}

  Doubles run_of(const TestTensor& tensor, std::size_t first, const Case& c) const {
    const Doubles all = tensor.doubles();
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + c.dim};
  }

  TestTensor x, weight, bias, dy;
};

TEST(Norm, ForwardIsTheDefinitionAndLeavesOtherColumnsAlone) {
  on_every_target([] {
    for (const Case& c : cases()) {
      SCOPED_TRACE(text(c));
      const Inputs in(c);
      const bool biased = c.kind == NormKind::kLayer;
      const TestTensor y = random_tensor(c.dtype, {c.rows, c.width}, 5);
      Doubles exact = y.doubles();
      over_runs(c, [&](std::size_t first) {
        const Doubles run =
            exact_run(c.kind, in.run_of(in.x, first, c), in.weight.doubles(), biased ? in.bias.doubles() : Doubles());
        std::copy(run.begin(), run.end(), exact.begin() + static_cast<std::ptrdiff_t>(first));
      });
      run_on_cpu(2, [&](Stream& stream) {
        norm_forward(stream, {.kind = c.kind,
                              .eps = kEps,
                              .x = in.x,
                              .weight = in.weight,
                              .bias = biased ? in.bias.view() : TensorView(),
                              .y = y,
                              .columns = c.columns});
      });
      expect_close(y, exact, 1e-6);

      run_on_cpu(1, [&](Stream& stream) {
        norm_forward(stream, {.kind = c.kind,
                              .eps = kEps,
                              .x = in.x,
                              .weight = in.weight,
                              .bias = biased ? in.bias.view() : TensorView(),
                              .y = in.x,
                              .columns = c.columns});
      });
      over_runs(c, [&](std::size_t first) { EXPECT_EQ(in.run_of(in.x, first, c), in.run_of(y, first, c)); });
    }
  });
}

// A mean far from zero: a one-pass variance would be noise here.
TEST(Norm, LayerNormOfRowsFarFromZeroIsExact) {
  Doubles x(300);
  Doubles ones(300, 1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 4096 + static_cast<double>(i % 7) / 8;
  const TestTensor in(DType::kF32, {1, 300}, x);
  const TestTensor weight(DType::kF32, {300}, ones);
  const TestTensor y(DType::kF32, {1, 300});
  on_every_target([&] {
    run_on_cpu(1, [&](Stream& stream) {
      norm_forward(
          stream,
          {.kind = NormKind::kLayer, .eps = kEps, .x = in, .weight = weight, .bias = {}, .y = y, .columns = {}});
    });
    expect_close(y, exact_run(NormKind::kLayer, x, ones, {}), 2e-3);  // the mean is a float: off by 2^-12 here
  });
}

// The derivative of sum(dy * y) by central differences in double.
double slope(const std::function<double(double)>& f) {
  const double h = 1e-5;
  return (f(h) - f(-h)) / (2 * h);
}

TEST(Norm, BackwardIsTheSlopeOfTheForward) {
  for (const Case& c : cases()) {
    if (c.dim > 100 || c.rows * c.width > 2000) continue;  // finite differences are quadratic
    SCOPED_TRACE(text(c));
    const Inputs in(c);
    const Doubles weight = in.weight.doubles();
    const TestTensor old_dx = random_tensor(c.dtype, {c.rows, c.width}, 6);
    const TestTensor old_dweight = random_tensor(DType::kF32, {c.dim}, 7);
    const TestTensor old_dbias = random_tensor(DType::kF32, {c.dim}, 8);
    Doubles exact_dx = old_dx.doubles();
    Doubles exact_dweight = old_dweight.doubles();
    Doubles exact_dbias = old_dbias.doubles();
    over_runs(c, [&](std::size_t first) {
      const Doubles x = in.run_of(in.x, first, c);
      const Doubles dy = in.run_of(in.dy, first, c);
      const auto loss = [&](const Doubles& x_now, const Doubles& weight_now) {
        const Doubles y = exact_run(c.kind, x_now, weight_now, {});
        return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
      };
      for (std::size_t i = 0; i < x.size(); ++i) {
        Doubles moved = x;
        exact_dx[first + i] = slope([&](double h) { return moved[i] = x[i] + h, loss(moved, weight); });
        Doubles moved_weight = weight;
        exact_dweight[i] += slope([&](double h) { return moved_weight[i] = weight[i] + h, loss(x, moved_weight); });
        exact_dbias[i] += dy[i];
      }
    });
    on_every_target([&] {
      const bool biased = c.kind == NormKind::kLayer;
      const TestTensor dx = old_dx.clone();
      const TestTensor dweight = old_dweight.clone();
      const TestTensor dbias = old_dbias.clone();
      NormBackward args = {.kind = c.kind,
                           .eps = kEps,
                           .x = in.x,
                           .weight = in.weight,
                           .dy = in.dy,
                           .dx = dx,
                           .dweight = dweight,
                           .dbias = biased ? dbias.view() : TensorView(),
                           .columns = c.columns};
      run_on_cpu(3, [&](Stream& stream) { norm_backward(stream, args); });
      expect_close(dx, exact_dx, 2e-6);
      expect_close(dweight, exact_dweight, 2e-6);
      if (biased) expect_close(dbias, exact_dbias, 2e-6);

      // In place, and without the gradients of weights.
      const TestTensor both = in.dy.clone();
      args.dy = both;
      args.dx = both;
      args.dweight = {};
      args.dbias = {};
      run_on_cpu(1, [&](Stream& stream) { norm_backward(stream, args); });
      over_runs(c, [&](std::size_t first) { EXPECT_EQ(in.run_of(both, first, c), in.run_of(dx, first, c)); });
    });
  }
}

TEST(Norm, ResultsDoNotDependOnTheNumberOfThreads) {
  const Case c = {NormKind::kLayer, DType::kBF16, 700, 100, 100, {}};
  const Inputs in(c);
  expect_same_bits_for_any_team([&](std::size_t num_threads) {
    const TestTensor dx(c.dtype, {c.rows, c.width});
    const TestTensor sums(DType::kF32, {2, c.dim});
    const std::size_t half = sums.view().bytes().size() / 2;
    run_on_cpu(num_threads, [&](Stream& stream) {
      norm_backward(stream, {.kind = c.kind,
                             .eps = kEps,
                             .x = in.x,
                             .weight = in.weight,
                             .dy = in.dy,
                             .dx = dx,
                             .dweight = {sums.view().bytes().first(half), DType::kF32, {c.dim}},
                             .dbias = {sums.view().bytes().last(half), DType::kF32, {c.dim}},
                             .columns = c.columns});
    });
    std::vector<std::byte> result = dx.bytes();
    const std::vector<std::byte> more = sums.bytes();
    result.insert(result.end(), more.begin(), more.end());
    return result;
  });
}

}  // namespace
}  // namespace sluice
