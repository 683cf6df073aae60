// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <malloc.h>

#include <fstream>
#include <ostream>

#include <gtest/gtest.h>

#include "base/cpu.h"
#include "base/sanitizer.h"
#include "ops/attention_case.h"

namespace sluice {
namespace {

AttentionShape shape_of(std::int64_t num_heads, std::int64_t num_kv_heads, std::int64_t head_dim) {
  return {.num_heads = num_heads,
          .num_kv_heads = num_kv_heads,
          .head_dim = head_dim,
          .scale = 1 / std::sqrt(static_cast<float>(head_dim))};
}

AttentionCase one_segment(const AttentionShape& shape, std::int64_t num_queries, std::int64_t num_keys) {
  return {.shape = shape,
          .segments = {{.q_first = 0, .q_count = num_queries, .k_first = 0, .k_count = num_keys}},
          .num_queries = num_queries,
          .num_keys = num_keys};
}

struct NamedCase {
  const char* name;
  AttentionCase test;
};
std::ostream& operator<<(std::ostream& out, const NamedCase& named) { return out << named.name; }

AttentionCase with_window(AttentionCase test, std::int64_t window) {
  test.shape.window = window;
  return test;
}

AttentionCase with_cap(AttentionCase test, float soft_cap) {
  test.shape.soft_cap = soft_cap;
  return test;
}

// Every head_dim a model has, and some that no vector divides.
std::vector<NamedCase> cases() {
  AttentionCase packed = one_segment(shape_of(2, 2, 24), 300, 300);
  packed.segments = {{1, 1, 1, 1}, {5, 130, 5, 130}, {135, 0, 135, 0}, {140, 155, 140, 155}};
  // Documents that continue from caches of their own; rows between them belong to nobody.
  AttentionCase everything = one_segment(shape_of(6, 2, 20), 190, 420);
  everything.segments = {{2, 90, 10, 200}, {100, 3, 211, 150}, {110, 40, 361, 57}};
  everything.shape.window = 70;
  everything.shape.soft_cap = 2;
  return {
      {"Plain", one_segment(shape_of(1, 1, 64), 200, 200)},
      {"OneToken", one_segment(shape_of(2, 1, 16), 1, 1)},
      {"HeadDim8", one_segment(shape_of(2, 2, 8), 100, 100)},
      {"HeadDim1", one_segment(shape_of(1, 1, 1), 70, 70)},
      {"HeadDim33", one_segment(shape_of(1, 1, 33), 65, 65)},
      {"HeadDim80", one_segment(shape_of(2, 1, 80), 97, 97)},
      {"HeadDim96", one_segment(shape_of(1, 1, 96), 129, 129)},
      {"HeadDim128", one_segment(shape_of(2, 1, 128), 193, 193)},
      {"HeadDim256", one_segment(shape_of(1, 1, 256), 100, 100)},
      {"ThreeHeadsOnOne", one_segment(shape_of(3, 1, 20), 150, 150)},
      {"Groups", one_segment(shape_of(8, 2, 16), 140, 140)},
      {"Cache", one_segment(shape_of(2, 2, 16), 40, 310)},
      {"CacheThatPutsABlockOfKeysBeforeTheLastRowOfABlock", one_segment(shape_of(1, 1, 16), 100, 133)},
      {"Generation", one_segment(shape_of(6, 2, 64), 1, 3000)},
      {"GenerationInAWindow", with_window(one_segment(shape_of(3, 3, 64), 1, 3000), 1500)},
      {"Window", with_window(one_segment(shape_of(2, 1, 16), 400, 400), 50)},
      {"WindowOfTwo", with_window(one_segment(shape_of(1, 1, 16), 200, 200), 2)},
      {"WideWindow", with_window(one_segment(shape_of(1, 1, 16), 400, 400), 250)},
      {"Cap", with_cap(one_segment(shape_of(2, 1, 16), 150, 150), 1.5F)},
      {"CapThatHardlyCaps", with_cap(one_segment(shape_of(1, 1, 64), 150, 150), 50)},
      {"Packed", packed},
      {"Everything", everything},
  };
}

class AttentionIn : public testing::TestWithParam<NamedCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, AttentionIn, testing::ValuesIn(cases()),
                         [](const auto& named) { return std::string(named.param.name); });

TEST_P(AttentionIn, F32IsAsDefined) { expect_as_defined(GetParam().test); }

TEST_P(AttentionIn, Bf16IsAsDefined) {
  AttentionCase test = GetParam().test;
  test.dtype = DType::kBF16;
  test.gradient_dtype = DType::kBF16;
  expect_as_defined(test);
}

TEST(Attention, GivesGradientsOfBf16InF32WhereAsked) {
  AttentionCase test = one_segment(shape_of(4, 2, 20), 100, 130);
  test.dtype = DType::kBF16;
  expect_as_defined(test);
  // The gradient of V depends on nothing that was rounded.
  EXPECT_LT(relative_error(run_attention(test, 1).dv, attention_by_definition(test).dv), 8e-6);
}

TEST_P(AttentionIn, BitsDoNotDependOnThreads) {
  const AttentionResult one = run_attention(GetParam().test, 1);
  for (const std::size_t num_threads : {2U, 3U, 7U}) {
    const AttentionResult many = run_attention(GetParam().test, num_threads);
    EXPECT_EQ(one.out, many.out);
    EXPECT_EQ(one.log_sum_exp, many.log_sum_exp);
    EXPECT_EQ(one.dq, many.dq);
    EXPECT_EQ(one.dk, many.dk);
    EXPECT_EQ(one.dv, many.dv);
  }
}

bool all_untouched(const std::vector<float>& values, std::int64_t width, std::int64_t first, std::int64_t count) {
  const auto begin = values.begin() + first * width;
  return std::all_of(begin, begin + count * width, [](float value) { return value == kUntouched; });
}

TEST(Attention, LeavesRowsOutsideSegmentsAndColumnsOfOthersAsTheyWere) {
  AttentionCase test = one_segment(shape_of(4, 2, 20), 200, 300);
  test.segments = {{3, 100, 7, 120}, {103, 1, 127, 40}, {110, 80, 180, 100}};
  const AttentionResult result = run_attention(test, 2);
  for (const AttentionSegment& between :
       std::vector<AttentionSegment>{{0, 3, 0, 7}, {104, 6, 167, 13}, {190, 10, 280, 20}}) {
    EXPECT_TRUE(all_untouched(result.out, 80, between.q_first, between.q_count));
    EXPECT_TRUE(all_untouched(result.dq, 80, between.q_first, between.q_count));
    EXPECT_TRUE(all_untouched(result.dk, 40, between.k_first, between.k_count));
    EXPECT_TRUE(all_untouched(result.dv, 40, between.k_first, between.k_count));
  }
  EXPECT_EQ(result.beside.size(), 1000U);
  EXPECT_TRUE(all_untouched(result.beside, 1, 0, 1000));
}

TEST(Attention, OfOneKeyGivesItsValue) {
  const AttentionCase test = with_window(one_segment(shape_of(3, 1, 24), 100, 100), 1);
  const AttentionResult result = run_attention(test, 1);
  const AttentionInputs in(test);
  for (std::int64_t token = 0; token < 100; ++token) {
    for (std::int64_t col = 0; col < 72; ++col) {
      const auto at = static_cast<std::size_t>(token * 72 + col);
      EXPECT_EQ(result.out[at], in.qkv.get(in.qkv.v(), token, col % 24));
      EXPECT_NEAR(result.dq[at], 0, 1e-5);
    }
  }
}

TEST(Attention, WeighsByAnExponentialGoodToTheLastBits) {
  // Pairs of keys with scores 0 and -x and values 0 and 1: the output is e^-x / (1 + e^-x).
  const std::int64_t num_pairs = 4000;
  AttentionCase test = one_segment({.num_heads = 1, .num_kv_heads = 1, .head_dim = 1}, 2 * num_pairs, 2 * num_pairs);
  test.segments.clear();
  const AttentionInputs in(test);
  const OwnedRows out(DType::kF32, 2 * num_pairs, 1);
  for (std::int64_t pair = 0; pair < num_pairs; ++pair) {
    test.segments.push_back({.q_first = 2 * pair + 1, .q_count = 1, .k_first = 2 * pair, .k_count = 2});
    for (const std::int64_t token : {2 * pair, 2 * pair + 1}) {
      const bool is_second = token % 2 == 1;
      in.qkv.queries.set(token, 0, 1);
      in.qkv.queries.set(token, 1, is_second ? -0.02F * static_cast<float>(pair) : 0);
      in.qkv.queries.set(token, 2, is_second ? 1 : 0);
    }
  }
  CpuDevice device(1 << 20, 2);
  const auto stream = device.make_stream("test");
  attention_forward(*stream, {.shape = test.shape,
                              .segments = test.segments,
                              .q = in.qkv.q(),
                              .k = in.qkv.k(),
                              .v = in.qkv.v(),
                              .out = out.view});
  stream->synchronize();
  double worst = 0;
  for (std::int64_t pair = 0; pair < num_pairs; ++pair) {
    const double weight = std::exp(static_cast<double>(in.qkv.queries.get(2 * pair + 1, 1)));
    const double expected = weight / (1 + weight);
    worst = std::max(worst, std::abs(out.get(2 * pair + 1, 0) - expected) / expected);
  }
  EXPECT_LT(worst, 2.5e-7);
}

TEST(Attention, SegmentsThatShareKeysAttendThemAsIfAlone) {
  AttentionCase test = one_segment(shape_of(2, 1, 16), 60, 100);
  AttentionInputs in(test);
  const auto forward = [&](const std::vector<AttentionSegment>& segments) {
    const OwnedRows out(DType::kF32, 60, 32);
    CpuDevice device(1 << 20, 2);
    const auto stream = device.make_stream("test");
    attention_forward(*stream, {.shape = test.shape,
                                .segments = segments,
                                .q = in.qkv.q(),
                                .k = in.qkv.k(),
                                .v = in.qkv.v(),
                                .out = out.view});
    stream->synchronize();
    const std::span<const float> values = out.view.as<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> both = forward({{0, 40, 0, 100}, {40, 20, 0, 90}});
  std::vector<float> alone = forward({{0, 40, 0, 100}});
  const std::vector<float> second = forward({{40, 20, 0, 90}});
  std::copy(second.begin() + 40 * 32, second.end(), alone.begin() + 40 * 32);
  EXPECT_EQ(both, alone);
}

TEST(Attention, NanShowsWhereItWasSeenAndNowhereElse) {
  for (const std::int64_t num_queries : {3, 150}) {  // few rows, and blocks of them
    const AttentionCase test = one_segment(shape_of(2, 2, 16), num_queries, 200);
    const AttentionInputs in(test);
    in.qkv.keys.set(198, 16, NAN);  // the second head of K
    const OwnedRows out(DType::kF32, num_queries, 32);
    CpuDevice device(1 << 20, 2);
    const auto stream = device.make_stream("test");
    attention_forward(*stream, {.shape = test.shape,
                                .segments = test.segments,
                                .q = in.qkv.q(),
                                .k = in.qkv.k(),
                                .v = in.qkv.v(),
                                .out = out.view});
    stream->synchronize();
    for (std::int64_t token = 0; token < num_queries; ++token) {
      for (std::int64_t col = 0; col < 32; ++col) {
        const bool saw_it = col >= 16 && token >= num_queries - 2;
        EXPECT_EQ(std::isnan(out.get(token, col)), saw_it) << token << ", " << col;
      }
    }
  }
}

// What a run takes at its peak beyond what was there before it: what others freed goes back, and the kernel's mark is
// reset.
std::int64_t peak_bytes_of(const AttentionCase& test) {
  malloc_trim(0);
  std::ofstream mark("/proc/self/clear_refs");
  EXPECT_TRUE(mark << 5 << std::flush) << "the kernel's mark is not reset";
  const std::uint64_t before_bytes = peak_rss_bytes();
  run_attention(test, 2);
  return static_cast<std::int64_t>(peak_rss_bytes() - before_bytes);
}

// Sanitizers keep bytes beside each that the program touches, and hold on to what was freed.
constexpr std::int64_t kBytesForAByte = kIsSanitized ? 8 : 1;

// A matrix of scores would be 32 MiB for 4,096 tokens in bf16, and 1 GiB for 16,384 in f32.
TEST(Attention, MemoryGrowsWithTokensAlone) {
  constexpr std::int64_t kFixedBytes = 8 << 20;
  constexpr std::int64_t kBytesPerToken = 1024;  // the inputs and results of the test among them
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t num_tokens : {4096, 8192, 16384}) {
      AttentionCase test = one_segment(shape_of(1, 1, 16), num_tokens, num_tokens);
      test.dtype = dtype;
      EXPECT_LT(peak_bytes_of(test), kBytesForAByte * (kFixedBytes + kBytesPerToken * num_tokens))
          << name(dtype) << ", " << num_tokens;
    }
  }
}

}  // namespace
}  // namespace sluice
