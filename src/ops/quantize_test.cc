// SPDX-License-Identifier: Apache-2.0
#include "ops/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

struct Nf4 {
  explicit Nf4(std::int64_t size)
      : num_elements(size),
        codes(DType::kU8, {nf4_sizes(size).num_code_bytes}),
        absmax_codes(DType::kU8, {nf4_sizes(size).num_absmax_codes}),
        absmax_scales(DType::kF32, {nf4_sizes(size).num_absmax_scales}),
        absmax_mean(DType::kF32, {1}) {}

  Nf4Tensor views() const {
    return {.codes = codes, .absmax_codes = absmax_codes, .absmax_scales = absmax_scales, .absmax_mean = absmax_mean};
  }
  std::uint8_t code(std::size_t i) const {
    const std::uint8_t both = codes.view().as<std::uint8_t>()[i / 2];
    return i % 2 == 0 ? both >> 4 : both & 15;
  }

  std::int64_t num_elements;
  TestTensor codes, absmax_codes, absmax_scales, absmax_mean;
};

Nf4 quantized(const TestTensor& weights, std::size_t num_threads) {
  Nf4 result(weights.view().shape().num_elements());
  run_on_cpu(num_threads, [&](Stream& stream) { quantize_nf4(stream, result.views(), weights); });
  return result;
}

TestTensor dequantized(const Nf4& from, DType dtype, std::int64_t first, std::int64_t count) {
  TestTensor to(dtype, {count});
  run_on_cpu(2, [&](Stream& stream) {
    dequantize_nf4(stream, {.to = to, .from = from.views(), .num_elements = from.num_elements, .first_element = first});
  });
  return to;
}

Doubles block_absmax(const Doubles& values) {
  Doubles absmax((values.size() + 63) / 64);
  for (std::size_t i = 0; i < values.size(); ++i) absmax[i / 64] = std::max(absmax[i / 64], std::abs(values[i]));
  return absmax;
}

// The inverse of the normal distribution's P(X <= x), by bisection.
double normal_quantile(double p) {
  double low = -10;
  double high = 10;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return low;
}

// As the paper makes them: quantiles at even distances of the two halves, 8 below 0 and 9 above with the 0 in common,
// from an offset that keeps the ends finite, scaled to 1.
TEST(Nf4, ValuesAreTheQuantilesOfThePaper) {
  const double offset = (1 - 1.0 / 32 + 1 - 1.0 / 30) / 2;
  Doubles values;
  for (int i = 0; i < 8; ++i) values.push_back(normal_quantile(offset + (0.5 - offset) * i / 8));
  for (int i = 0; i < 7; ++i) values.push_back(-normal_quantile(offset + (0.5 - offset) * i / 7));
  values.push_back(0);
  std::sort(values.begin(), values.end());
  ASSERT_EQ(values.size(), kNf4Values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(kNf4Values[i]), values[i] / values.back(), 1e-6) << i;
  }
}

TEST(Nf4, CodesAreTheNearestValuesOfTheirBlock) {
  on_every_target([] {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t size : {1, 63, 64, 129, 40001}) {
        SCOPED_TRACE(std::string(label(dtype)) + " size " + std::to_string(size));
        const TestTensor weights = random_tensor(dtype, {size}, 1, 0.02);
        const Nf4 result = quantized(weights, 2);
        const Doubles values = weights.doubles();
        const Doubles absmax = block_absmax(values);
        for (std::size_t i = 0; i < values.size(); ++i) {
          double nearest = 2;
          const double x = values[i] / absmax[i / 64];
          for (const float value : kNf4Values) nearest = std::min(nearest, std::abs(x - static_cast<double>(value)));
          ASSERT_NEAR(std::abs(x - static_cast<double>(kNf4Values[result.code(i)])), nearest, 2e-7) << i;
        }
        if (size % 2 == 1) {
          EXPECT_EQ(result.code(values.size()), 0);
        }
      }
    }
  });
}

// What the scales' own 8 bits add to the error: half a bucket of the distance from the mean.
TEST(Nf4, RoundTripIsTheValueTimesTheAbsmaxWithinTheErrorOfEightBits) {
  constexpr std::int64_t kSize = 64 * 600 + 17;  // three blocks of absmaxes, the last short
  on_every_target([] {
    const TestTensor weights = random_tensor(DType::kF32, {kSize}, 3, 0.02);
    const Nf4 result = quantized(weights, 2);
    const Doubles values = weights.doubles();
    const Doubles absmax = block_absmax(values);
    double mean = 0;
    for (const double one : absmax) mean += one / static_cast<double>(absmax.size());
    EXPECT_NEAR(result.absmax_mean.doubles()[0], mean, 1e-8);
    Doubles scales(3);
    for (std::size_t i = 0; i < absmax.size(); ++i) {
      scales[i / 256] = std::max(scales[i / 256], std::abs(absmax[i] - mean));
    }
    const TestTensor back = dequantized(result, DType::kF32, 0, kSize);
    const Doubles back_values = back.doubles();
    const TestTensor back_bf16 = dequantized(result, DType::kBF16, 0, kSize);
    double squares = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double distance = std::abs(absmax[i / 64] - mean);
      const double absmax_error = std::max(scales[i / 64 / 256] * 0.0071, distance * 0.01);
      const auto value = static_cast<double>(kNf4Values[result.code(i)]);
      ASSERT_NEAR(back_values[i], value * absmax[i / 64], std::abs(value) * absmax_error + 1e-8) << i;
      squares += std::pow(back_values[i] - values[i], 2);
    }
    EXPECT_LT(std::sqrt(squares / kSize), 0.1 * 0.02);  // a normal distribution in 16 values
    expect_close(back_bf16, back_values, 0);
  });
}

TEST(Nf4, PartsAndTeamsGiveTheBitsOfTheWhole) {
  constexpr std::int64_t kSize = 64 * 1500 + 5;
  const TestTensor weights = random_tensor(DType::kBF16, {kSize}, 4, 0.02);
  on_every_target([&] {
    expect_same_bits_for_any_team([&](std::size_t num_threads) {
      const Nf4 result = quantized(weights, num_threads);
      std::vector<std::byte> bytes = result.codes.bytes();
      for (const TestTensor* tensor : {&result.absmax_codes, &result.absmax_scales, &result.absmax_mean}) {
        const std::vector<std::byte> more = tensor->bytes();
        bytes.insert(bytes.end(), more.begin(), more.end());
      }
      return bytes;
    });
    const Nf4 result = quantized(weights, 2);
    const std::vector<std::byte> whole = dequantized(result, DType::kBF16, 0, kSize).bytes();
    std::vector<std::byte> parts = dequantized(result, DType::kBF16, 0, 64 * 700).bytes();
    const std::vector<std::byte> rest = dequantized(result, DType::kBF16, 64 * 700, kSize - 64 * 700).bytes();
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_TRUE(parts == whole);
  });
}

TEST(Nf4, ZerosAndTheTiniestFloatsComeBack) {
  on_every_target([] {
    Doubles values(192, 0);
    for (std::size_t i = 64; i < 128; ++i) values[i] = i % 2 == 0 ? 0x1p-149 : -0x1p-149;
    const TestTensor weights(DType::kF32, {192}, values);
    const Nf4 result = quantized(weights, 1);
    for (std::size_t i = 0; i < 192; ++i) {
      EXPECT_EQ(result.code(i), i < 64 || i >= 128 ? 7 : i % 2 == 0 ? 15 : 0) << i;
    }
    const Doubles back = dequantized(result, DType::kF32, 0, 192).doubles();
    EXPECT_EQ(back[0], 0);
    EXPECT_EQ(back[191], 0);
  });
}

TEST(Int8Rows, CodesAreRoundedByTheRowsLargest) {
  on_every_target([] {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t num_cols : {1, 15, 64, 301}) {
        const TestTensor weights = random_tensor(dtype, {21, num_cols}, 5);
        const TestTensor codes(DType::kI8, {21, num_cols});
        const TestTensor absmax(DType::kF32, {21});
        TestTensor back(dtype, {21, num_cols});
        run_on_cpu(2, [&](Stream& stream) {
          quantize_int8(stream, {.codes = codes, .absmax = absmax}, weights);
          dequantize_int8(stream, back, {.codes = codes, .absmax = absmax});
        });
        const Doubles values = weights.doubles();
        Doubles expected = values;
        for (std::size_t row = 0; row < 21; ++row) {
          double largest = 0;
          const auto cols = static_cast<std::size_t>(num_cols);
          for (std::size_t col = 0; col < cols; ++col) largest = std::max(largest, std::abs(values[row * cols + col]));
          ASSERT_EQ(absmax.doubles()[row], largest);
          for (std::size_t col = 0; col < cols; ++col) {
            const std::size_t i = row * cols + col;
            const int code = codes.view().as<std::int8_t>()[i];
            ASSERT_NEAR(code, values[i] / largest * 127, 0.5 + 1e-4);
            expected[i] = code * largest / 127;
          }
        }
        expect_close(back, expected, 1e-7);
      }
    }
  });
}

TEST(Int8Rows, ZerosStayZerosAndANanStaysInItsRow) {
  on_every_target([] {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const TestTensor weights(DType::kF32, {3, 2}, {0, -0.0, 1, nan, -2, 0x1p-149});
    const TestTensor codes(DType::kI8, {3, 2});
    const TestTensor absmax(DType::kF32, {3});
    const TestTensor back(DType::kF32, {3, 2});
    run_on_cpu(1, [&](Stream& stream) {
      quantize_int8(stream, {.codes = codes, .absmax = absmax}, weights);
      dequantize_int8(stream, back, {.codes = codes, .absmax = absmax});
    });
    EXPECT_EQ(back.doubles()[0], 0);
    EXPECT_EQ(back.doubles()[1], 0);
    EXPECT_TRUE(std::isnan(back.doubles()[2]) && std::isnan(back.doubles()[3]));
    EXPECT_EQ(back.doubles()[4], -2);
    EXPECT_EQ(back.doubles()[5], 0);
  });
}

}  // namespace
}  // namespace sluice
