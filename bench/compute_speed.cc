// SPDX-License-Identifier: Apache-2.0
#include "bench/compute_speed.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/bf16.h"
#include "base/random.h"
#include "base/units.h"
#include "bench/statistics.h"
#include "format/hf_config.h"
#include "model/block.h"
#include "model/description.h"
#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "plan/step_costs.h"

namespace sluice {
namespace {

constexpr int kRounds = 3;
// A card's clock follows its load and its power limit: what it keeps up is seen only after a while of the same.
constexpr double kCardWarmUpSeconds = 0.5;
constexpr double kCardSeconds = 0.3;
constexpr std::uint64_t kCopyBytes = 64 * kMiB;       // far beyond the caches
constexpr std::int64_t kOptimizerElements = 8 << 20;  // 28 bytes each
constexpr std::int64_t kTokens = 512;
constexpr std::int64_t kAttentionTokens = 1024;
constexpr std::int64_t kMostCardTokens = 16384;
// A block of a model that is larger computes at full pace, and takes long to measure.
constexpr double kMostElements = 32e6;
constexpr double kMostProducts = 2.5e9;  // elements times tokens

// A block like those of small models: shapes that are large enough for the kernels to reach their pace.
Architecture usual_model(std::int64_t hidden = 1024) {
  return describe_model(ConfigReader("measured model", nlohmann::json{{"model_type", "llama"},
                                                                      {"hidden_size", hidden},
                                                                      {"intermediate_size", hidden / 4 * 11},
                                                                      {"num_hidden_layers", 1},
                                                                      {"num_attention_heads", hidden / 64},
                                                                      {"num_key_value_heads", hidden / 256},
                                                                      {"vocab_size", 1024},
                                                                      {"max_position_embeddings", 4096}}))
      .arch;
}

// Device memory for the block's weights, gradients, activations and workspace.
std::uint64_t block_bytes(const MeasuredBlock& block, DeviceKind device) {
  const Architecture& arch = block.arch;
  const auto bytes_of = [&](DType dtype, std::int64_t num_tokens) {
    const BlockSize size{.num_tokens = num_tokens, .dtype = dtype, .device = device};
    const std::uint64_t workspace =
        std::max(block_forward_workspace_bytes(arch, size), block_backward_workspace_bytes(arch, size));
    const auto rows = static_cast<std::uint64_t>(num_tokens);
    const auto row = static_cast<std::uint64_t>(2 * (arch.hidden + arch.qkv_width() + arch.q_width()));
    return slice_layout(arch, block_slice(arch, 0)).num_elements() * (size_bytes(dtype) + sizeof(float)) + workspace +
           rows * row * size_bytes(dtype) + rows * static_cast<std::uint64_t>(arch.num_heads) * sizeof(float) +
           Batch::size_bytes(arch, num_tokens);
  };
  return std::max(bytes_of(DType::kBF16, block.num_tokens),
                  bytes_of(DType::kF32, std::min(block.num_tokens, kAttentionTokens)));
}

bool fits(const MeasuredBlock& block, std::uint64_t memory_bytes) {
  return block_bytes(block, DeviceKind::kCpu) + 64 * Device::kAlignment <= memory_bytes;
}

}  // namespace

MeasuredBlock usual_block(std::uint64_t memory_bytes) {
  MeasuredBlock usual{.arch = usual_model(), .num_tokens = kTokens};
  if (fits(usual, memory_bytes)) return usual;
  return {.arch = usual_model(256), .num_tokens = kTokens / 8};
}

MeasuredBlock measured_block(const Architecture& arch, std::int64_t batch_tokens, std::uint64_t memory_bytes) {
  if (arch.num_layers() == 0) return usual_block(memory_bytes);
  MeasuredBlock block{.arch = arch, .num_tokens = batch_tokens};
  block.arch.adapter = {};
  const auto elements = static_cast<double>(slice_layout(block.arch, block_slice(block.arch, 0)).num_elements());
  if (elements > kMostElements) return usual_block(memory_bytes);
  const auto most_tokens = static_cast<std::int64_t>(kMostProducts / elements);
  block.num_tokens = std::clamp<std::int64_t>(batch_tokens, 1, std::clamp<std::int64_t>(most_tokens, 64, kTokens));
  return fits(block, memory_bytes) ? block : usual_block(memory_bytes);
}

MeasuredBlock whole_block(const Architecture& arch, std::int64_t batch_tokens, std::int64_t sequence_len) {
  if (arch.num_layers() == 0) return {.arch = usual_model(), .num_tokens = kTokens};
  MeasuredBlock block{.arch = arch, .num_tokens = std::clamp<std::int64_t>(batch_tokens, 1, kMostCardTokens)};
  block.arch.adapter = {};
  block.document_tokens = std::clamp<std::int64_t>(sequence_len, 1, block.num_tokens);
  return block;
}

std::uint64_t measuring_bytes(const MeasuredBlock& block, DeviceKind device) {
  return std::max(block_bytes(block, device), 3 * kCopyBytes) + 64 * Device::kAlignment;
}

ComputeSpeed::ComputeSpeed(Device& device)
    : device_(device),
      copy_bytes_(std::min(kCopyBytes, round_down(device.arena_bytes() / 8, Device::kAlignment))),
      stream_(device_.make_stream("measure")) {}

Machine::Rates ComputeSpeed::attention_flops_per_s() {
  const Architecture arch = usual_model();
  return {.bf16 = attention(arch, kAttentionTokens, DType::kBF16),
          .f32 = attention(arch, kAttentionTokens, DType::kF32)};
}

Machine::Rates ComputeSpeed::attention_flops_per_s(const MeasuredBlock& measured) {
  const std::int64_t num_tokens = measured.document_tokens;
  return {.bf16 = attention(measured.arch, num_tokens, DType::kBF16),
          .f32 = attention(measured.arch, std::min(num_tokens, kAttentionTokens), DType::kF32)};
}

Machine::Rates ComputeSpeed::block_flops_per_s(const MeasuredBlock& measured, const Machine::Device& known) {
  MeasuredBlock fewer = measured;
  fewer.num_tokens = std::min(measured.num_tokens, kAttentionTokens);
  return {.bf16 = block(measured, DType::kBF16, known), .f32 = block(fewer, DType::kF32, known)};
}

double ComputeSpeed::copy_bytes_per_s() {
  const TensorView from = take(DType::kF32, {static_cast<std::int64_t>(copy_bytes_ / sizeof(float))});
  const TensorView to = take(DType::kF32, from.shape());
  const double seconds = median_seconds([&] { stream_->copy(to.bytes(), from.bytes()); });
  free();
  return static_cast<double>(copy_bytes_) / seconds;
}

double ComputeSpeed::memory_bytes_per_s() {
  const TensorView a = take(DType::kF32, {static_cast<std::int64_t>(copy_bytes_ / sizeof(float))});
  const TensorView b = take(DType::kF32, a.shape());
  const double seconds = median_seconds([&] { add(*stream_, a, a, b); });
  free();
  return 3 * static_cast<double>(copy_bytes_) / seconds;
}

double ComputeSpeed::optimizer_bytes_per_s() {
  const std::int64_t num_elements = std::min(kOptimizerElements, static_cast<std::int64_t>(copy_bytes_ / 8));
  const Shape shape{num_elements};
  AdamW args{.weight = take(DType::kBF16, shape),
             .trailing = take(DType::kBF16, shape),
             .grad = take(DType::kF32, shape),
             .m = take(DType::kF32, shape),
             .v = take(DType::kF32, shape)};
  for (const TensorView& view : {args.m, args.v}) stream_->clear(view.bytes());
  const double seconds = median_seconds([&] { adamw(*stream_, args); });
  free();
  return update_bytes_per_element(OptimizerState::kAdamWF32) * static_cast<double>(num_elements) / seconds;
}

// Small random numbers, as kernels are slower on denormals and some are faster on zeros.
TensorView ComputeSpeed::take(DType dtype, const Shape& shape) {
  const auto count = static_cast<std::uint64_t>(shape.num_elements());
  memory_.push_back(device_.allocate(std::max<std::uint64_t>(count * size_bytes(dtype), 1), "measuring"));
  Random random(memory_.size());
  const auto next = [&] { return static_cast<float>(static_cast<double>(random.next() >> 40U) / (1 << 24) - 0.5) / 8; };
  std::vector<std::byte> values(count * size_bytes(dtype));
  if (dtype == DType::kF32) {
    for (std::uint64_t idx = 0; idx < count; ++idx) reinterpret_cast<float*>(values.data())[idx] = next();
  } else {
    for (std::uint64_t idx = 0; idx < count; ++idx) reinterpret_cast<BF16*>(values.data())[idx] = to_bf16(next());
  }
  const TensorView view(memory_.back().bytes(), dtype, shape);
  stream_->copy(view.bytes(), values);
  stream_->synchronize();
  return view;
}

double ComputeSpeed::median_seconds(const std::function<void()>& work) {
  const auto once = [&] {
    const Stopwatch stopwatch(clock_);
    work();
    stream_->synchronize();
    return stopwatch.seconds();
  };
  once();  // finds cold caches and sleeping threads
  const bool is_card = device_.kind() == DeviceKind::kCuda;
  const Stopwatch begun(clock_);
  if (is_card) {
    while (begun.seconds() < kCardWarmUpSeconds) once();
  }
  std::vector<double> seconds;
  for (double sum = 0; seconds.size() < kRounds || (is_card && sum < kCardSeconds); sum += seconds.back()) {
    seconds.push_back(once());
  }
  return median(seconds);
}

double ComputeSpeed::attention(const Architecture& arch, std::int64_t num_tokens, DType dtype) {
  const AttentionShape shape{.num_heads = arch.num_heads,
                             .num_kv_heads = arch.num_kv_heads,
                             .head_dim = arch.head_dim,
                             .scale = arch.attention_scale};
  const std::vector<AttentionSegment> segments{{0, num_tokens, 0, num_tokens}};
  const TensorView qkv = take(dtype, {num_tokens, arch.qkv_width()});
  const TensorView out = take(dtype, {num_tokens, arch.q_width()});
  const TensorView sums = take(DType::kF32, {arch.num_heads, num_tokens});
  const TensorView d_out = take(dtype, out.shape());
  const TensorView d_qkv = take(dtype, qkv.shape());
  const std::int64_t k_col = arch.q_width();
  const std::int64_t v_col = k_col + arch.kv_width();
  const double seconds = median_seconds([&] {
    attention_forward(*stream_, {.shape = shape,
                                 .segments = segments,
                                 .q = {qkv, 0},
                                 .k = {qkv, k_col},
                                 .v = {qkv, v_col},
                                 .out = out,
                                 .log_sum_exp = sums});
    attention_backward(*stream_, {.shape = shape,
                                  .segments = segments,
                                  .q = {qkv, 0},
                                  .k = {qkv, k_col},
                                  .v = {qkv, v_col},
                                  .out = out,
                                  .log_sum_exp = sums,
                                  .dout = d_out,
                                  .dq = {d_qkv, 0},
                                  .dk = {d_qkv, k_col},
                                  .dv = {d_qkv, v_col}});
  });
  free();
  // Seven products in all, two forward and five backward, of half the pairs.
  const double pairs = static_cast<double>(num_tokens) * static_cast<double>(num_tokens + 1) / 2;
  return 7 * 2 * pairs * static_cast<double>(arch.q_width()) / seconds;
}

// A forward and a backward, less what attention and memory take of them.
double ComputeSpeed::block(const MeasuredBlock& measured, DType dtype, const Machine::Device& known) {
  const Architecture& arch = measured.arch;
  const std::int64_t num_tokens = measured.num_tokens;
  const std::int64_t document_tokens = std::min(measured.document_tokens, num_tokens);
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(document_tokens), 1);
  const std::int64_t rest_tokens = num_tokens % document_tokens;
  std::vector<DocumentTokens> documents(static_cast<std::size_t>(num_tokens / document_tokens), {.ids = ids});
  if (rest_tokens > 0) documents.push_back({.ids = std::span(ids).first(static_cast<std::size_t>(rest_tokens))});
  const SliceLayout layout = slice_layout(arch, block_slice(arch, 0));
  const Shape slice{static_cast<std::int64_t>(layout.num_elements())};
  double seconds = 0;
  {
    const Batch batch(device_, *stream_, arch, documents);
    const TensorView weights = take(dtype, slice);
    const TensorView gradients = take(DType::kF32, slice);
    const TensorView x = take(dtype, {num_tokens, arch.hidden});
    const TensorView y = take(dtype, x.shape());
    const BlockSize size{.num_tokens = num_tokens, .dtype = dtype, .device = device_.kind()};
    const std::uint64_t bytes =
        std::max(block_forward_workspace_bytes(arch, size), block_backward_workspace_bytes(arch, size));
    memory_.push_back(device_.allocate(bytes, "measuring"));
    const std::span<std::byte> workspace = memory_.back().bytes();
    const BlockPass pass{
        .stream = stream_.get(), .arch = &arch, .batch = &batch, .dtype = dtype, .weights = weights.bytes()};
    seconds = median_seconds([&] {
      block_forward(pass, x, y, Workspace(workspace));
      block_backward(pass, gradients.bytes(), x, y, y, Workspace(workspace));
    });
    free();
  }
  constexpr double kFree = 1e300;
  const StepShape shape{.dtype = dtype, .batch_tokens = num_tokens, .sequence_len = document_tokens};
  const auto cost_s = [&](const Machine::Device& device) {
    Machine machine;
    machine.device = device;
    const StepCosts costs = step_costs(arch, shape, machine);
    return costs.block_forward[0] + costs.block_backward_s(0, Schedule());
  };
  Machine::Device rest = known;
  rest.flops_per_s = {kFree, kFree};
  const Machine::Device products{
      .flops_per_s = {1, 1}, .attention_flops_per_s = {kFree, kFree}, .memory_bytes_per_s = kFree};
  return cost_s(products) / std::max(seconds - cost_s(rest), seconds / 2);
}

}  // namespace sluice
