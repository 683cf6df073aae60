// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/cuda/parity.h"
#include "ops/kernels.h"

namespace sluice::testing {
namespace {

struct AttentionCase {
  std::string name;
  AttentionShape shape;
  std::vector<AttentionSegment> segments;
  std::int64_t num_queries = 0;
  std::int64_t num_keys = 0;
};

AttentionShape shape_of(std::int64_t num_heads, std::int64_t num_kv_heads, std::int64_t head_dim) {
  return {.num_heads = num_heads,
          .num_kv_heads = num_kv_heads,
          .head_dim = head_dim,
          .scale = 1 / std::sqrt(static_cast<float>(head_dim))};
}

// Documents one after another, `gap` rows that belong to nobody before each.
AttentionCase documents(std::string name, const AttentionShape& shape, const std::vector<std::int64_t>& lengths,
                        std::int64_t gap = 0) {
  AttentionCase c{.name = std::move(name), .shape = shape, .segments = {}};
  for (const std::int64_t length : lengths) {
    c.num_queries += gap;
    c.segments.push_back({c.num_queries, length, c.num_queries, length});
    c.num_queries += length;
  }
  c.num_keys = c.num_queries;
  return c;
}

AttentionCase with_window(AttentionCase c, std::int64_t window) {
  c.shape.window = window;
  return c;
}

AttentionCase with_cap(AttentionCase c, float soft_cap) {
  c.shape.soft_cap = soft_cap;
  return c;
}

std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> all;
  const std::vector<std::int64_t> odd = {1, 130, 77, 2, 201};
  for (const std::int64_t dim : {64, 80, 96, 128, 256}) {
    const std::string suffix = std::to_string(dim);
    all.push_back(documents("OneHeadOf" + suffix, shape_of(1, 1, dim), {300}));
    all.push_back(documents("GroupsOf" + suffix, shape_of(4, 2, dim), odd));
    all.push_back(with_window(documents("WindowOf" + suffix, shape_of(4, 2, dim), odd), 50));
    all.push_back(with_cap(documents("CapOf" + suffix, shape_of(4, 2, dim), odd), 1.5F));
  }
  // Where a document is all there is.
  for (const std::int64_t dim : {64, 80, 96, 128, 256}) {
    all.push_back(documents("WholeOf" + std::to_string(dim), shape_of(4, 2, dim), {2080}));
  }
  all.push_back(documents("WholeOfOneHead", shape_of(2, 2, 128), {2048}));
  all.push_back(documents("WholeManyHeads", shape_of(32, 8, 128), {2048}));
  all.push_back(with_window(documents("WholeInAWindow", shape_of(4, 2, 128), {2144}), 300));
  all.push_back(documents("ManyHeads", shape_of(32, 8, 128), {333, 150}));
  all.push_back(documents("ManyHeadsOf64", shape_of(32, 8, 64), {129, 64}));
  all.push_back(documents("Long", shape_of(4, 2, 128), {1500}));
  all.push_back(documents("Gaps", shape_of(4, 2, 64), {100, 1, 0, 150}, 3));
  all.push_back(documents("ManyDocuments", shape_of(2, 1, 64), std::vector<std::int64_t>(300, 3)));
  all.push_back(documents("OneToken", shape_of(4, 2, 64), {1}));
  all.push_back(documents("HeadsThatNoVectorFits", shape_of(6, 2, 20), {150, 33}));
  all.push_back(documents("HeadsOfOne", shape_of(3, 1, 1), {70}));
  all.push_back(documents("HeadsOf33", shape_of(3, 3, 33), {65}));
  all.push_back(with_window(documents("WindowOfOne", shape_of(4, 2, 64), {100}), 1));
  all.push_back(with_window(documents("WindowAcrossTiles", shape_of(4, 1, 128), {700, 90}), 300));
  // More keys than queries: documents that continue from caches of their own.
  all.push_back({"Caches", shape_of(6, 2, 64), {{2, 90, 10, 200}, {100, 3, 211, 150}, {110, 40, 361, 57}}, 190, 420});
  all.push_back(with_cap(with_window(all.back(), 70), 2));
  all.back().name = "CachesWithWindowAndCap";
  all.push_back({"Generation", shape_of(8, 2, 128), {{0, 1, 0, 2000}}, 1, 2000});
  all.push_back(
      {"GenerationInAWindow", with_window(all.back(), 700).shape, {{0, 1, 0, 1500}, {1, 3, 1500, 900}}, 4, 2400});
  return all;
}

// q, k and v are columns of one matrix where there are as many queries as keys; q stands alone where not. So with the
// gradients.
struct Tensors {
  Tensors(const AttentionCase& c, DType dtype, DType gradient_dtype)
      : fused(c.num_queries == c.num_keys),
        q_cols(c.shape.num_heads * c.shape.head_dim),
        kv_cols(c.shape.num_kv_heads * c.shape.head_dim),
        queries(random_tensor(dtype, {c.num_queries, q_cols + (fused ? 2 * kv_cols : 0)}, 1)),
        keys(random_tensor(dtype, {fused ? 0 : c.num_keys, 2 * kv_cols}, 2)),
        out(random_tensor(dtype, {c.num_queries, q_cols}, 3)),
        log_sum_exp(random_tensor(DType::kF32, {c.shape.num_heads, c.num_queries}, 4)),
        dout(random_tensor(dtype, {c.num_queries, q_cols}, 5)),
        dqueries(random_tensor(gradient_dtype, queries.view().shape(), 6)),
        dkeys(random_tensor(gradient_dtype, keys.view().shape(), 7)) {}

  HeadColumns q(const Place& at) const { return {at(queries), 0}; }
  HeadColumns k(const Place& at) const { return fused ? HeadColumns{at(queries), q_cols} : HeadColumns{at(keys), 0}; }
  HeadColumns v(const Place& at) const { return {k(at).rows, k(at).first_col + kv_cols}; }
  HeadColumns dq(const Place& at) const { return {at(dqueries), 0}; }
  HeadColumns dk(const Place& at) const {
    return fused ? HeadColumns{at(dqueries), q_cols} : HeadColumns{at(dkeys), 0};
  }
  HeadColumns dv(const Place& at) const { return {dk(at).rows, dk(at).first_col + kv_cols}; }

  bool fused;
  std::int64_t q_cols, kv_cols;
  TestTensor queries, keys, out, log_sum_exp, dout, dqueries, dkeys;
};

void put_forward(Stream& stream, const Place& at, const AttentionCase& c, const Tensors& t) {
  attention_forward(stream, {.shape = c.shape,
                             .segments = c.segments,
                             .q = t.q(at),
                             .k = t.k(at),
                             .v = t.v(at),
                             .out = at(t.out),
                             .log_sum_exp = at(t.log_sum_exp)});
}

void put_backward(Stream& stream, const Place& at, const AttentionCase& c, const Tensors& t) {
  attention_backward(stream, {.shape = c.shape,
                              .segments = c.segments,
                              .q = t.q(at),
                              .k = t.k(at),
                              .v = t.v(at),
                              .out = at(t.out),
                              .log_sum_exp = at(t.log_sum_exp),
                              .dout = at(t.dout),
                              .dq = t.dq(at),
                              .dk = t.dk(at),
                              .dv = t.dv(at)});
}

class CudaAttentionOp : public CudaTest {
 protected:
  static constexpr Tolerance kNear = {.f32 = 1e-5, .bf16 = 1e-2};

  void expect_forward_parity(const AttentionCase& c, DType dtype) {
    SCOPED_TRACE(c.name + " " + label(dtype) + " forward");
    const Tensors t(c, dtype, dtype);
    expect_parity([&](Stream& stream, const Place& at) { put_forward(stream, at, c, t); }, {&t.out, &t.log_sum_exp},
                  kNear);
  }

  // Both start from the CPU's output, so that the backward is judged by itself.
  void expect_backward_parity(const AttentionCase& c, DType dtype, DType gradient_dtype) {
    SCOPED_TRACE(c.name + " " + label(dtype) + " backward to " + label(gradient_dtype));
    Tensors t(c, dtype, gradient_dtype);
    {
      CpuDevice cpu(kArenaBytes, 2);
      const std::unique_ptr<Stream> stream = cpu.make_stream("test");
      const Place at(cpu, *stream);
      put_forward(*stream, at, c, t);
      TestTensor out = at.fetch(t.out);
      TestTensor log_sum_exp = at.fetch(t.log_sum_exp);
      t.out = std::move(out);
      t.log_sum_exp = std::move(log_sum_exp);
    }
    // bf16 that is read makes dS bf16 on the way, whatever is written.
    const Tolerance near = dtype == DType::kBF16 ? Tolerance{.f32 = 1e-2, .bf16 = 1e-2} : kNear;
    expect_parity([&](Stream& stream, const Place& at) { put_backward(stream, at, c, t); }, {&t.dqueries, &t.dkeys},
                  near);
  }

  std::string described() {
    const std::unique_ptr<Stream> stream = card().make_stream("test");
    return stream->kernels()->describe();
  }
};

TEST_F(CudaAttentionOp, F32) {
  for (const AttentionCase& c : attention_cases()) {
    expect_forward_parity(c, DType::kF32);
    expect_backward_parity(c, DType::kF32, DType::kF32);
  }
  EXPECT_THAT(described(), ::testing::HasSubstr("0 on tensor cores"));
}

TEST_F(CudaAttentionOp, Bf16ByOwnKernels) {
  use_card({.arena_bytes = kArenaBytes, .scratch_bytes = kScratchBytes, .attention = CudaAttention::kOwnKernels});
  for (const AttentionCase& c : attention_cases()) {
    expect_forward_parity(c, DType::kBF16);
    expect_backward_parity(c, DType::kBF16, DType::kBF16);
  }
  EXPECT_THAT(described(), ::testing::HasSubstr("forward: 0 by cuDNN"));
}

// As on cards with the least shared memory per block: compute capability 8.6, 8.9 and 12.0.
TEST_F(CudaAttentionOp, Bf16BySmallTiles) {
  constexpr int kLeastSharedBytes = 101'376;
  use_card({.arena_bytes = kArenaBytes,
            .scratch_bytes = kScratchBytes,
            .attention = CudaAttention::kOwnKernels,
            .pretend = {.shared_bytes_per_block = kLeastSharedBytes}});
  for (const AttentionCase& c : attention_cases()) {
    if (c.shape.head_dim <= 96) continue;  // large tiles fit every card
    expect_forward_parity(c, DType::kBF16);
    expect_backward_parity(c, DType::kBF16, DType::kBF16);
  }
  EXPECT_THAT(described(), ::testing::Not(::testing::HasSubstr("backward: 0 by cuDNN, 0 on tensor cores")));
}

// A kind of request that cuDNN rejects and our own kernels compute, and which passes stay with cuDNN.
struct Refusal {
  const char* name;
  CudaPretence pretend;
  bool forward_is_left = true;  // cuDNN still computes the forward of some case
  bool backward_is_left = true;
  const char* said = "";
};

std::vector<Refusal> refusals() {
  const auto refuse = [](auto is_refused) {
    CudaPretence pretend;
    pretend.cudnn_refuses = is_refused;
    return pretend;
  };
  return {
      {"everything", refuse([](const CudnnRequest&) { return true; }), false, false, "a test refuses it"},
      {"backward", refuse([](const CudnnRequest& r) { return r.is_backward; }), true, false, "a test refuses it"},
      {"packed documents", refuse([](const CudnnRequest& r) { return r.is_packed; }), true, true, ""},
      {"one document", refuse([](const CudnnRequest& r) { return !r.is_packed; }), true, true, ""},
      {"heads of 128", refuse([](const CudnnRequest& r) { return r.head_dim == 128; }), true, true, ""},
      {"compute capability 8.9, cuDNN 9.14",
       {.compute_major = 8, .compute_minor = 9, .cudnn_version = 91400},
       true,
       false,
       ""},
      {"compute capability 8.6, cuDNN 9.19",
       {.compute_major = 8, .compute_minor = 6, .cudnn_version = 91900},
       true,
       false,
       ""},
      {"compute capability 12.0", {.compute_major = 12, .compute_minor = 0, .cudnn_version = 91900}, true, false, ""},
  };
}

TEST_F(CudaAttentionOp, WhatCudnnRefusesIsComputedByOwnKernels) {
  std::vector<AttentionCase> cases;
  for (AttentionCase& c : attention_cases()) {
    const bool is_chosen = c.name == "GroupsOf64" || c.name == "GroupsOf128" || c.name == "WholeOf128" ||
                           c.name == "WholeOf64" || c.name == "WindowOf128" || c.name == "GroupsOf256";
    if (is_chosen) cases.push_back(std::move(c));
  }
  ASSERT_EQ(cases.size(), 6U);
  use_card({.arena_bytes = kArenaBytes, .scratch_bytes = kGiB / 2});
  for (const AttentionCase& c : cases) expect_forward_parity(c, DType::kBF16);
  const bool has_cudnn = described().find("forward: 0 by cuDNN") == std::string::npos;
  for (const Refusal& refusal : refusals()) {
    SCOPED_TRACE(refusal.name);
    use_card({.arena_bytes = kArenaBytes, .scratch_bytes = kGiB / 2, .pretend = refusal.pretend});
    for (const AttentionCase& c : cases) {
      expect_forward_parity(c, DType::kBF16);
      expect_backward_parity(c, DType::kBF16, DType::kBF16);
    }
    if (!has_cudnn) continue;
    const std::string description = described();
    EXPECT_EQ(description.find("forward: 0 by cuDNN") == std::string::npos, refusal.forward_is_left) << description;
    EXPECT_EQ(description.find("backward: 0 by cuDNN") == std::string::npos, refusal.backward_is_left) << description;
    EXPECT_THAT(description, ::testing::HasSubstr(refusal.said));
  }
}

// The report of `sluice env`, for the actual card and for simulated ones.
TEST_F(CudaAttentionOp, SaysHowItIsComputed) {
  const auto paths_text = [&](const CudaPretence& pretend) {
    std::string text;
    for (const CudaPath& path : plugin().paths({.pretend = pretend}, {.probe = CudnnProbe::kAsk})) {
      text += path.operation + ": " + path.by + " (" + path.because + ")\n";
    }
    std::printf("%s\n", text.c_str());
    return text;
  };
  const std::string here = paths_text({});
  EXPECT_THAT(here, ::testing::HasSubstr("attention forward in bf16, heads of 64"));
  EXPECT_THAT(here, ::testing::HasSubstr("matrix products: cuBLASLt ()"));
  const std::string ada =
      paths_text({.shared_bytes_per_block = 101'376, .compute_major = 8, .compute_minor = 9, .cudnn_version = 91900});
  EXPECT_THAT(ada, ::testing::HasSubstr("small tiles where large ones do not fit (a block has 99 KiB"));
  EXPECT_THAT(ada, ::testing::HasSubstr("attention backward in bf16, heads of 64, 128: own kernels ("));
}

TEST_F(CudaAttentionOp, Bf16ByTheFastest) {
  use_card({.arena_bytes = kArenaBytes, .scratch_bytes = kGiB / 2});
  for (const AttentionCase& c : attention_cases()) {
    expect_forward_parity(c, DType::kBF16);
    expect_backward_parity(c, DType::kBF16, DType::kBF16);
  }
  const std::string description = described();
  std::puts(description.c_str());
  if (description.find("no cuDNN") == std::string::npos && description.find("without cuDNN") == std::string::npos) {
    EXPECT_THAT(description, ::testing::Not(::testing::HasSubstr("forward: 0 by cuDNN")));
    EXPECT_THAT(description, ::testing::Not(::testing::HasSubstr("backward: 0 by cuDNN")));
  }
}

TEST_F(CudaAttentionOp, GradientsOfBf16InF32) {
  for (const AttentionCase& c : attention_cases()) {
    if (c.shape.head_dim == 128 || c.shape.head_dim == 20) expect_backward_parity(c, DType::kBF16, DType::kF32);
  }
}

// Tensors of a case on a card alone; a thousand rows of random numbers, over and over.
class SpeedTensors {
 public:
  SpeedTensors(Device& card, Stream& stream, const AttentionCase& c)
      : q_cols_(c.shape.num_heads * c.shape.head_dim), kv_cols_(c.shape.num_kv_heads * c.shape.head_dim) {
    const auto take = [&](std::int64_t width) {
      const TestTensor some = random_tensor(DType::kBF16, {1000, width}, static_cast<std::uint64_t>(width));
      const std::span<const std::byte> bytes = some.view().bytes();
      const std::uint64_t size = static_cast<std::uint64_t>(c.num_queries * width) * 2;
      buffers_.push_back(card.allocate(size, "a test's tensor"));
      for (std::uint64_t at = 0; at < size; at += bytes.size()) {
        const std::uint64_t count = std::min<std::uint64_t>(bytes.size(), size - at);
        stream.copy(buffers_.back().bytes().subspan(at, count), bytes.first(count));
      }
      stream.synchronize();
      return TensorView(buffers_.back().bytes(), DType::kBF16, {c.num_queries, width});
    };
    qkv_ = take(q_cols_ + 2 * kv_cols_);
    dqkv_ = take(q_cols_ + 2 * kv_cols_);
    out_ = take(q_cols_);
    dout_ = take(q_cols_);
    buffers_.push_back(card.allocate(static_cast<std::uint64_t>(c.shape.num_heads * c.num_queries) * 4, "a test's"));
    log_sum_exp_ = TensorView(buffers_.back().bytes(), DType::kF32, {c.shape.num_heads, c.num_queries});
  }

  void put_forward(Stream& stream, const AttentionCase& c) const {
    attention_forward(stream, {.shape = c.shape,
                               .segments = c.segments,
                               .q = {qkv_, 0},
                               .k = {qkv_, q_cols_},
                               .v = {qkv_, q_cols_ + kv_cols_},
                               .out = out_,
                               .log_sum_exp = log_sum_exp_});
  }
  void put_backward(Stream& stream, const AttentionCase& c) const {
    attention_backward(stream, {.shape = c.shape,
                                .segments = c.segments,
                                .q = {qkv_, 0},
                                .k = {qkv_, q_cols_},
                                .v = {qkv_, q_cols_ + kv_cols_},
                                .out = out_,
                                .log_sum_exp = log_sum_exp_,
                                .dout = dout_,
                                .dq = {dqkv_, 0},
                                .dk = {dqkv_, q_cols_},
                                .dv = {dqkv_, q_cols_ + kv_cols_}});
  }

 private:
  std::int64_t q_cols_, kv_cols_;
  std::vector<Buffer> buffers_;
  TensorView qkv_, dqkv_, out_, dout_, log_sum_exp_;
};

// Not checks: run them with --gtest_also_run_disabled_tests --gtest_filter='*Speed*'.
class CudaAttentionSpeed : public CudaAttentionOp {
 protected:
  void print(const char* way, const AttentionCase& c, const CudaDeviceOptions& options) {
    use_card(options);
    const std::unique_ptr<Stream> stream = card().make_stream("speed");
    const SpeedTensors tensors(card(), *stream, c);
    double pairs = 0;  // of queries and keys
    for (const AttentionSegment& s : c.segments) pairs += 0.5 * static_cast<double>(s.q_count * s.q_count);
    const double flops = 4 * pairs * static_cast<double>(c.shape.num_heads * c.shape.head_dim);
    const auto line = [&](const char* what, double time, double num_flops) {
      const std::string name = "attention " + c.name + ", " + way + ", " + what;
      std::printf("%-72s %9.3f ms  %8.1f TFLOP/s\n", name.c_str(), time * 1e3, num_flops / time * 1e-12);
    };
    line("forward", seconds_on_card(*stream, [&] { tensors.put_forward(*stream, c); }), flops);
    line("backward", seconds_on_card(*stream, [&] { tensors.put_backward(*stream, c); }), 2.5 * flops);
    std::printf("  %s\n", described().c_str());
  }
};

// Beside torch's, see bench/beside_torch.py.
TEST_F(CudaAttentionSpeed, DISABLED_OneDocument) {
  const AttentionCase c = documents("1 x 12000 32/8 of 128", shape_of(32, 8, 128), {12000});
  print("2 GiB of scratch", c, {.arena_bytes = 4 * kGiB, .scratch_bytes = 2 * kGiB});
  print("6 GiB of scratch", c, {.arena_bytes = 8 * kGiB, .scratch_bytes = 6 * kGiB});
  print("12 GiB of scratch", c, {.arena_bytes = 14 * kGiB, .scratch_bytes = 12 * kGiB});
}

TEST_F(CudaAttentionSpeed, DISABLED_OtherShapes) {
  const CudaDeviceOptions own = {
      .arena_bytes = 2 * kGiB, .scratch_bytes = 64 * kMiB, .attention = CudaAttention::kOwnKernels};
  const AttentionCase five =
      documents("5 documents of 12000 32/8 of 128", shape_of(32, 8, 128), {3000, 5000, 1000, 2000, 1000});
  print("64 MiB of scratch", five, {.arena_bytes = 2 * kGiB, .scratch_bytes = 64 * kMiB});
  print("2 GiB of scratch", five, {.arena_bytes = 4 * kGiB, .scratch_bytes = 2 * kGiB});
  print("12 GiB of scratch", five, {.arena_bytes = 14 * kGiB, .scratch_bytes = 12 * kGiB});
  print("own kernels", five, own);
  print("own kernels", documents("1 x 12000 32/8 of 128", shape_of(32, 8, 128), {12000}), own);
  print("own kernels", documents("1 x 12000 8/4 of 256", shape_of(8, 4, 256), {12000}), own);
  CudaDeviceOptions small = own;
  small.pretend.shared_bytes_per_block = 101'376;
  print("small tiles", documents("1 x 12000 32/8 of 128", shape_of(32, 8, 128), {12000}), small);
  print("small tiles", documents("1 x 12000 8/4 of 256", shape_of(8, 4, 256), {12000}), small);
  print("own kernels", documents("1 x 12000 32/8 of 64", shape_of(32, 8, 64), {12000}), own);
}

}  // namespace
}  // namespace sluice::testing
