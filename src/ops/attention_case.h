// SPDX-License-Identifier: Apache-2.0
// For tests: one use of attention with random inputs, run by the operation, and from the definition (whole score
// matrices, in double). Heads lie in columns of wider rows: q, k and v fused in one where there are as many queries as
// keys, q by itself and k, v fused where not.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bf16.h"
#include "base/random.h"
#include "device/cpu/cpu_device.h"
#include "ops/attention.h"

namespace sluice {

struct AttentionCase {
  AttentionShape shape;
  std::vector<AttentionSegment> segments;
  std::int64_t num_queries = 0;
  std::int64_t num_keys = 0;
  DType dtype = DType::kF32;
  DType gradient_dtype = dtype;
};

// As floats, whatever the dtype was, each (tokens, heads * head_dim) but log_sum_exp (heads, tokens).
struct AttentionResult {
  std::vector<float> out, log_sum_exp, dq, dk, dv;
  std::vector<float> beside;  // what the gradients' rows hold in columns that are no head's
};

// What outputs hold before. Exact in bf16.
inline constexpr float kUntouched = 0.25F;

// (tokens, width) in memory of its own.
struct OwnedRows {
  OwnedRows(DType dtype, std::int64_t tokens, std::int64_t width)
      : memory(static_cast<std::size_t>(tokens * width) * size_bytes(dtype)), view(memory, dtype, {tokens, width}) {}

  float get(std::int64_t token, std::int64_t col) const {
    const auto at = static_cast<std::size_t>(token * view.shape()[1] + col);
    return view.dtype() == DType::kF32 ? view.as<float>()[at] : to_float(view.as<BF16>()[at]);
  }
  void set(std::int64_t token, std::int64_t col, float value) const {
    const auto at = static_cast<std::size_t>(token * view.shape()[1] + col);
    if (view.dtype() == DType::kF32) {
      view.as<float>()[at] = value;
    } else {
      view.as<BF16>()[at] = to_bf16(value);
    }
  }
  void fill(float value) const {
    for (std::int64_t token = 0; token < view.shape()[0]; ++token) {
      for (std::int64_t col = 0; col < view.shape()[1]; ++col) set(token, col, value);
    }
  }
  // Sums of uniform numbers: mean 0, variance 1.
  void randomize(std::uint64_t seed) const {
    Random random(seed);
    for (std::int64_t token = 0; token < view.shape()[0]; ++token) {
      for (std::int64_t col = 0; col < view.shape()[1]; ++col) {
        double sum = -6;
        for (int idx = 0; idx < 12; ++idx) sum += static_cast<double>(random.below(1U << 20)) / (1U << 20);
        set(token, col, static_cast<float>(sum));
      }
    }
  }

  std::vector<std::byte> memory;
  TensorView view;
};

// Where q, k and v of a case, or their gradients, are.
struct FusedRows {
  FusedRows(const AttentionCase& test, DType dtype)
      : shares_rows(test.num_queries == test.num_keys),
        q_width(test.shape.num_heads * test.shape.head_dim),
        kv_width(test.shape.num_kv_heads * test.shape.head_dim),
        queries(dtype, test.num_queries, q_width + (shares_rows ? 2 * kv_width : 5)),
        keys(dtype, shares_rows ? 0 : test.num_keys, 2 * kv_width) {}

  HeadColumns q() const { return {.rows = queries.view, .first_col = shares_rows ? 0 : 3}; }
  HeadColumns k() const { return shares_rows ? HeadColumns{queries.view, q_width} : HeadColumns{keys.view, 0}; }
  HeadColumns v() const { return {.rows = k().rows, .first_col = k().first_col + kv_width}; }
  float get(const HeadColumns& in, std::int64_t token, std::int64_t col) const {
    return (in.rows.bytes().data() == queries.view.bytes().data() ? queries : keys).get(token, in.first_col + col);
  }
  std::vector<float> dense(const HeadColumns& in, std::int64_t width) const {
    std::vector<float> values;
    for (std::int64_t token = 0; token < in.rows.shape()[0]; ++token) {
      for (std::int64_t col = 0; col < width; ++col) values.push_back(get(in, token, col));
    }
    return values;
  }

  bool shares_rows;
  std::int64_t q_width, kv_width;
  OwnedRows queries, keys;
};

struct AttentionInputs {
  explicit AttentionInputs(const AttentionCase& test)
      : qkv(test, test.dtype), dout(test.dtype, test.num_queries, test.shape.num_heads * test.shape.head_dim) {
    qkv.queries.randomize(1);
    qkv.keys.randomize(2);
    dout.randomize(3);
  }

  FusedRows qkv;
  OwnedRows dout;
};

inline AttentionResult run_attention(const AttentionCase& test, std::size_t num_threads) {
  const AttentionInputs in(test);
  const FusedRows gradients(test, test.gradient_dtype);
  const OwnedRows out(test.dtype, test.num_queries, gradients.q_width);
  const OwnedRows log_sum_exp(DType::kF32, test.shape.num_heads, test.num_queries);
  for (const OwnedRows* rows : {&gradients.queries, &gradients.keys, &out, &log_sum_exp}) rows->fill(kUntouched);
  {
    CpuDevice device(1 << 20, num_threads);
    const auto stream = device.make_stream("test");
    attention_forward(*stream, {.shape = test.shape,
                                .segments = test.segments,
                                .q = in.qkv.q(),
                                .k = in.qkv.k(),
                                .v = in.qkv.v(),
                                .out = out.view,
                                .log_sum_exp = log_sum_exp.view});
    attention_backward(*stream, {.shape = test.shape,
                                 .segments = test.segments,
                                 .q = in.qkv.q(),
                                 .k = in.qkv.k(),
                                 .v = in.qkv.v(),
                                 .out = out.view,
                                 .log_sum_exp = log_sum_exp.view,
                                 .dout = in.dout.view,
                                 .dq = gradients.q(),
                                 .dk = gradients.k(),
                                 .dv = gradients.v()});
    stream->synchronize();
  }
  AttentionResult result;
  for (std::int64_t token = 0; token < test.num_queries; ++token) {
    for (std::int64_t col = 0; col < gradients.q_width; ++col) result.out.push_back(out.get(token, col));
  }
  const std::span<const float> sums = log_sum_exp.view.as<float>();
  result.log_sum_exp.assign(sums.begin(), sums.end());
  result.dq = gradients.dense(gradients.q(), gradients.q_width);
  result.dk = gradients.dense(gradients.k(), gradients.kv_width);
  result.dv = gradients.dense(gradients.v(), gradients.kv_width);
  for (std::int64_t token = 0; token < test.num_queries && !gradients.shares_rows; ++token) {
    for (const std::int64_t col : {0L, 1L, 2L, gradients.q_width + 3, gradients.q_width + 4}) {
      result.beside.push_back(gradients.queries.get(token, col));
    }
  }
  return result;
}

inline AttentionResult attention_by_definition(const AttentionCase& test) {
  const AttentionInputs in(test);
  const AttentionShape& shape = test.shape;
  const std::int64_t dim = shape.head_dim;
  const HeadColumns q_at = in.qkv.q();
  const HeadColumns k_at = in.qkv.k();
  const HeadColumns v_at = in.qkv.v();

  const std::int64_t q_width = in.qkv.q_width;
  const std::int64_t kv_width = in.qkv.kv_width;
  std::vector<double> out(static_cast<std::size_t>(test.num_queries * q_width), kUntouched);
  std::vector<double> sums(static_cast<std::size_t>(test.num_queries * shape.num_heads), kUntouched);
  std::vector<double> dq = out;
  std::vector<double> dk(static_cast<std::size_t>(test.num_keys * kv_width), kUntouched);
  std::vector<double> dv = dk;
  const auto zero = [&](std::vector<double>& values, std::int64_t width, std::int64_t first, std::int64_t count) {
    std::fill_n(values.begin() + first * width, count * width, 0.0);
  };

  for (const AttentionSegment& segment : test.segments) {
    zero(out, q_width, segment.q_first, segment.q_count);
    zero(dq, q_width, segment.q_first, segment.q_count);
    zero(dk, kv_width, segment.k_first, segment.k_count);
    zero(dv, kv_width, segment.k_first, segment.k_count);
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      const std::int64_t q_col = head * dim;
      const std::int64_t k_col = head / (shape.num_heads / shape.num_kv_heads) * dim;
      for (std::int64_t query = 0; query < segment.q_count; ++query) {
        const std::int64_t token = segment.q_first + query;
        const std::int64_t own_key = query + segment.k_count - segment.q_count;
        const std::int64_t first = shape.window == 0 ? 0 : std::max<std::int64_t>(0, own_key - shape.window + 1);
        std::vector<double> weights, tanhs;
        double max = -1e300;
        for (std::int64_t key = first; key <= own_key; ++key) {
          double score = 0;
          for (std::int64_t idx = 0; idx < dim; ++idx) {
            score += static_cast<double>(in.qkv.get(q_at, token, q_col + idx)) *
                     in.qkv.get(k_at, segment.k_first + key, k_col + idx);
          }
          score *= shape.scale;
          tanhs.push_back(shape.soft_cap == 0 ? 0 : std::tanh(score / shape.soft_cap));
          if (shape.soft_cap != 0) score = shape.soft_cap * tanhs.back();
          weights.push_back(score);
          max = std::max(max, score);
        }
        double sum = 0;
        for (double& weight : weights) sum += (weight = std::exp(weight - max));
        for (double& weight : weights) weight /= sum;
        sums[static_cast<std::size_t>(head * test.num_queries + token)] = max + std::log(sum);

        std::vector<double> dweights;
        double delta = 0;
        for (std::size_t at = 0; at < weights.size(); ++at) {
          const std::int64_t key = segment.k_first + first + static_cast<std::int64_t>(at);
          double dweight = 0;
          for (std::int64_t idx = 0; idx < dim; ++idx) {
            const double value = in.qkv.get(v_at, key, k_col + idx);
            const double dout = in.dout.get(token, q_col + idx);
            out[static_cast<std::size_t>(token * q_width + q_col + idx)] += weights[at] * value;
            dv[static_cast<std::size_t>(key * kv_width + k_col + idx)] += weights[at] * dout;
            dweight += dout * value;
          }
          dweights.push_back(dweight);
          delta += weights[at] * dweight;
        }
        for (std::size_t at = 0; at < weights.size(); ++at) {
          const std::int64_t key = segment.k_first + first + static_cast<std::int64_t>(at);
          const double dscore =
              weights[at] * (dweights[at] - delta) * (1 - tanhs[at] * tanhs[at]) * static_cast<double>(shape.scale);
          for (std::int64_t idx = 0; idx < dim; ++idx) {
            dq[static_cast<std::size_t>(token * q_width + q_col + idx)] += dscore * in.qkv.get(k_at, key, k_col + idx);
            dk[static_cast<std::size_t>(key * kv_width + k_col + idx)] += dscore * in.qkv.get(q_at, token, q_col + idx);
          }
        }
      }
    }
  }
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  return {.out = floats(out),
          .log_sum_exp = floats(sums),
          .dq = floats(dq),
          .dk = floats(dk),
          .dv = floats(dv),
          .beside = {}};
}

// The largest difference, relative to the value and the root mean square of all values.
// Sums that cancel are judged by what they sum: inputs have variance 1.
inline double relative_error(const std::vector<float>& actual, const std::vector<float>& expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double squares = 0;
  for (const double value : expected) squares += value * value;
  const double rms = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, expected.size())));
  double worst = 0;
  for (std::size_t idx = 0; idx < actual.size(); ++idx) {
    const double value = expected[idx];
    const double error = std::abs(actual[idx] - value) / (std::abs(value) + std::max(rms, 0.01));
    worst = error <= worst ? worst : error;  // a NaN stays
  }
  return worst;
}

struct AttentionTolerance {
  double out, gradient;
};

constexpr AttentionTolerance tolerance_of(DType dtype) {
  // bf16: half a unit in the last place; the gradient also starts from a rounded output.
  return dtype == DType::kF32 ? AttentionTolerance{.out = 5e-6, .gradient = 8e-6}
                              : AttentionTolerance{.out = 0.005, .gradient = 0.04};
}

inline void expect_as_defined(const AttentionCase& test) {
  const AttentionResult actual = run_attention(test, 2);
  const AttentionResult expected = attention_by_definition(test);
  const AttentionTolerance tolerance = tolerance_of(test.dtype);
  EXPECT_LT(relative_error(actual.out, expected.out), tolerance.out);
  EXPECT_LT(relative_error(actual.log_sum_exp, expected.log_sum_exp), 3e-6);
  EXPECT_LT(relative_error(actual.dq, expected.dq), tolerance.gradient);
  EXPECT_LT(relative_error(actual.dk, expected.dk), tolerance.gradient);
  EXPECT_LT(relative_error(actual.dv, expected.dv), tolerance.gradient);
}

}  // namespace sluice
