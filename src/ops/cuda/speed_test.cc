// SPDX-License-Identifier: Apache-2.0
// Not a check: what the operations of a block and a head take on a card, in the shapes of an 8B model at 12,288 tokens.
// Run it with --gtest_also_run_disabled_tests --gtest_filter='*Speed*'.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ops/activation.h"
#include "ops/adamw.h"
#include "ops/cross_entropy.h"
#include "ops/cuda/parity.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/gemm.h"
#include "ops/norm.h"
#include "ops/quantize.h"
#include "ops/reduce.h"
#include "ops/rotary.h"

namespace sluice::testing {
namespace {

constexpr std::int64_t kTokens = 12288;
constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kMlp = 14336;
constexpr std::int64_t kQkv = 6144;
constexpr std::int64_t kRange = 32768;
constexpr std::int64_t kHeadTokens = 2048;

class CudaSpeed : public ::testing::Test {
 protected:
  void SetUp() override {
    CudaPluginFinding found = open_cuda_plugin();
    if (!found.plugin) GTEST_SKIP() << found.why_not;
    plugin_ = std::move(found.plugin);
    const std::string why_not = plugin_->find().why_not;
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    card_ = plugin_->make_device({.arena_bytes = 12 * kGiB});
    stream_ = card_->make_stream("speed");
  }
  void TearDown() override {
    stream_.reset();
    buffers_.clear();
  }

  // Random values that repeat; freed with forget().
  TensorView take(DType dtype, const Shape& shape) {
    const TestTensor some =
        dtype == DType::kI32 ? random_ids({1 << 16}, kRange, 1) : random_tensor(dtype, {1 << 20}, 2);
    const std::span<const std::byte> bytes = some.view().bytes();
    const std::uint64_t size = static_cast<std::uint64_t>(shape.num_elements()) * size_bytes(dtype);
    buffers_.push_back(card_->allocate(size, "a test's tensor"));
    for (std::uint64_t at = 0; at < size; at += bytes.size()) {
      const std::uint64_t count = std::min<std::uint64_t>(bytes.size(), size - at);
      stream_->copy(buffers_.back().bytes().subspan(at, count), bytes.first(count));
    }
    stream_->synchronize();
    return {buffers_.back().bytes(), dtype, shape};
  }
  void forget() { buffers_.clear(); }

  double seconds(const std::function<void(Stream&)>& put) {
    return seconds_on_card(*stream_, [&] { put(*stream_); });
  }

  // `gigabytes`: read and written.
  void print_rate(const char* what, double gigabytes, const std::function<void(Stream&)>& put) {
    const double time = seconds(put);
    std::printf("%-44s %9.3f ms  %8.0f GB/s\n", what, time * 1e3, gigabytes / time);
    forget();
  }

  void print_gemm(const char* what, const GemmExtents& e, Transpose ta, Transpose tb, DType result, Into into) {
    const TensorView a = take(DType::kBF16, ta == Transpose::kYes ? Shape{e.k, e.m} : Shape{e.m, e.k});
    const TensorView b = take(DType::kBF16, tb == Transpose::kYes ? Shape{e.n, e.k} : Shape{e.k, e.n});
    const TensorView c = take(result, {e.m, e.n});
    const double time = seconds([&](Stream& stream) {
      gemm(stream, {.a = a, .b = b, .c = c, .transpose_a = ta, .transpose_b = tb, .into = into});
    });
    const double flops = 2.0 * static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.k);
    std::printf("%-44s %9.3f ms  %8.1f TFLOP/s\n", what, time * 1e3, flops / time * 1e-12);
    forget();
  }

 private:
  std::unique_ptr<CudaPlugin> plugin_;
  std::unique_ptr<Device> card_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> buffers_;
};

double gigabytes(std::int64_t num_elements, double bytes_each) {
  return static_cast<double>(num_elements) * bytes_each * 1e-9;
}

TEST_F(CudaSpeed, DISABLED_Products) {
  struct Layer {
    const char* name;
    std::int64_t out, in;
  };
  for (const Layer& layer : {Layer{"qkv", kQkv, kHidden}, Layer{"attention out", kHidden, kHidden},
                             Layer{"gate and up", 2 * kMlp, kHidden}, Layer{"down", kHidden, kMlp}}) {
    const std::string name = layer.name;
    print_gemm((name + ", forward").c_str(), {.m = kTokens, .n = layer.out, .k = layer.in}, Transpose::kNo,
               Transpose::kYes, DType::kBF16, Into::kOverwrite);
    print_gemm((name + ", gradient of the input").c_str(), {.m = kTokens, .n = layer.in, .k = layer.out},
               Transpose::kNo, Transpose::kNo, DType::kBF16, Into::kOverwrite);
    print_gemm((name + ", gradient of the weight, added f32").c_str(), {.m = layer.out, .n = layer.in, .k = kTokens},
               Transpose::kYes, Transpose::kNo, DType::kF32, Into::kAdd);
  }
  print_gemm("head, logits in f32", {.m = kHeadTokens, .n = kRange, .k = kHidden}, Transpose::kNo, Transpose::kYes,
             DType::kF32, Into::kOverwrite);
}

TEST_F(CudaSpeed, DISABLED_RowsOfABlock) {
  {
    const TensorView x = take(DType::kBF16, {kTokens, kHidden});
    const TensorView y = take(DType::kBF16, {kTokens, kHidden});
    const TensorView w = take(DType::kBF16, {kHidden});
    print_rate("norm", gigabytes(kTokens * kHidden, 4),
               [&](Stream& s) { norm_forward(s, {.eps = 1e-5F, .x = x, .weight = w, .y = y}); });
  }
  {
    const TensorView x = take(DType::kBF16, {kTokens, kHidden});
    const TensorView dy = take(DType::kBF16, {kTokens, kHidden});
    const TensorView dx = take(DType::kBF16, {kTokens, kHidden});
    const TensorView w = take(DType::kBF16, {kHidden});
    const TensorView dw = take(DType::kF32, {kHidden});
    print_rate("norm, backward", gigabytes(kTokens * kHidden, 6), [&](Stream& s) {
      norm_backward(s, {.eps = 1e-5F, .x = x, .weight = w, .dy = dy, .dx = dx, .dweight = dw});
    });
  }
  {
    const TensorView heads = take(DType::kBF16, {kTokens, kQkv});
    const TensorView cos = take(DType::kF32, {kTokens, 64});
    const TensorView sin = take(DType::kF32, {kTokens, 64});
    print_rate("rotary of 40 heads", gigabytes(kTokens * 40 * 128, 4), [&](Stream& s) {
      rotary(s, {.heads = heads, .cos = cos, .sin = sin, .num_heads = 40, .head_dim = 128});
    });
  }
  {
    const TensorView x = take(DType::kBF16, {kTokens, 2 * kMlp});
    const TensorView h = take(DType::kBF16, {kTokens, kMlp});
    print_rate("gated silu", gigabytes(kTokens * kMlp, 6), [&](Stream& s) { activation_forward(s, {.x = x, .h = h}); });
  }
  {
    const TensorView x = take(DType::kBF16, {kTokens, 2 * kMlp});
    const TensorView dh = take(DType::kBF16, {kTokens, kMlp});
    print_rate("gated silu, backward", gigabytes(kTokens * kMlp, 10),
               [&](Stream& s) { activation_backward(s, {.x = x, .dh = dh, .dx = x}); });
  }
  {
    const TensorView a = take(DType::kBF16, {kTokens, kHidden});
    const TensorView b = take(DType::kBF16, {kTokens, kHidden});
    print_rate("add", gigabytes(kTokens * kHidden, 6), [&](Stream& s) { add(s, a, a, b); });
  }
  {
    const TensorView rows = take(DType::kBF16, {kTokens, kQkv});
    const TensorView sums = take(DType::kF32, {kQkv});
    print_rate("column sums", gigabytes(kTokens * kQkv, 2), [&](Stream& s) { add_column_sums(s, sums, rows); });
  }
}

TEST_F(CudaSpeed, DISABLED_EndsOfAModel) {
  {
    const TensorView ids = take(DType::kI32, {kTokens});
    const TensorView table = take(DType::kBF16, {kRange, kHidden});
    const TensorView out = take(DType::kBF16, {kTokens, kHidden});
    print_rate("embedding", gigabytes(kTokens * kHidden, 4),
               [&](Stream& s) { embedding_forward(s, {.ids = ids, .table = table, .out = out}); });
  }
  {
    const TensorView ids = take(DType::kI32, {kTokens});
    const TensorView dout = take(DType::kBF16, {kTokens, kHidden});
    const TensorView dtable = take(DType::kF32, {kRange, kHidden});
    print_rate("embedding, backward", gigabytes(kTokens * kHidden, 10),
               [&](Stream& s) { embedding_backward(s, {.ids = ids, .dout = dout, .dtable = dtable}); });
  }
  {
    const TensorView logits = take(DType::kF32, {kHeadTokens, kRange});
    const TensorView labels = take(DType::kI32, {kHeadTokens});
    const TensorView losses = take(DType::kF32, {kHeadTokens});
    const TensorView dlogits = take(DType::kBF16, {kHeadTokens, kRange});
    print_rate("cross-entropy with its gradient", gigabytes(kHeadTokens * kRange, 10), [&](Stream& s) {
      cross_entropy(s, {.logits = logits, .labels = labels, .losses = losses, .dlogits = dlogits});
    });
  }
  {
    const std::int64_t count = std::int64_t{1} << 28;
    const TensorView values = take(DType::kF32, {count});
    const TensorView sum = take(DType::kF32, {1});
    print_rate("sum of squares", gigabytes(count, 4), [&](Stream& s) { sum_of_squares(s, sum, values); });
  }
  {
    const std::int64_t count = std::int64_t{1} << 27;
    const TensorView weight = take(DType::kBF16, {count});
    const TensorView trailing = take(DType::kBF16, {count});
    const TensorView grad = take(DType::kF32, {count});
    const TensorView m = take(DType::kBF16, {count});
    const TensorView v = take(DType::kBF16, {count});
    print_rate("AdamW with bf16 moments", gigabytes(count, 20), [&](Stream& s) {
      adamw(s, {.weight = weight, .trailing = trailing, .grad = grad, .m = m, .v = v, .seed = 1});
    });
  }
  {
    const std::int64_t count = std::int64_t{1} << 28;
    const Nf4Sizes sizes = nf4_sizes(count);
    const auto bytes = [&](std::int64_t size) {
      const TensorView words = take(DType::kI32, {(size + 3) / 4});
      return TensorView(words.bytes(), DType::kU8, {size});
    };
    const Nf4Tensor from{.codes = bytes(sizes.num_code_bytes),
                         .absmax_codes = bytes(sizes.num_absmax_codes),
                         .absmax_scales = take(DType::kF32, {sizes.num_absmax_scales}),
                         .absmax_mean = take(DType::kF32, {1})};
    const TensorView to = take(DType::kBF16, {count});
    print_rate("NF4 to bf16", gigabytes(count, 2.5),
               [&](Stream& s) { dequantize_nf4(s, {.to = to, .from = from, .num_elements = count}); });
  }
}

}  // namespace
}  // namespace sluice::testing
