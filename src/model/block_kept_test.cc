// SPDX-License-Identifier: Apache-2.0
// What a block's forward keeps is what its backward would compute again, to the bit, and what its backward then reads.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bf16.h"
#include "base/random.h"
#include "base/units.h"
#include "device/cpu/cpu_device.h"
#include "model/adapter_sites.h"
#include "model/block.h"
#include "model/description.h"
#include "model/reference_models.h"

namespace sluice {
namespace {

constexpr std::size_t kDocuments = 53;
constexpr std::size_t kDocumentTokens = 20;  // 1060 in all: more than the MLP takes at a time
constexpr std::int64_t kTokens = kDocuments * kDocumentTokens;

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

// One block between random numbers.
class OneBlock {
 public:
  OneBlock(const Architecture& arch, DType dtype)
      : arch_(arch),
        dtype_(dtype),
        device_(64 * kMiB, 2),
        stream_(device_.make_stream("compute")),
        batch_(device_, *stream_, arch_, documents()),
        x_(take(dtype, {kTokens, arch.hidden}, 1)),
        y_(take(dtype, {kTokens, arch.hidden}, 2)),
        workspace_(device_.allocate(std::max(block_forward_workspace_bytes(arch, {kTokens, dtype}),
                                             block_backward_workspace_bytes(arch, {kTokens, dtype})),
                                    "workspace")),
        kept_(device_.allocate(block_kept_bytes(arch, {kTokens, dtype}), "kept")) {
    const std::size_t slice_idx = block_slice(arch_, 0);
    const auto elements = static_cast<std::int64_t>(slice_layout(arch_, slice_idx).num_elements());
    weights_ = take(dtype, {elements}, 3);
    const auto trained = static_cast<std::int64_t>(trained_layout(arch_, slice_idx).num_elements());
    gradients_ = take(DType::kF32, {trained}, 4);
    if (arch_.adapter.exists()) adapter_ = take(DType::kF32, {trained}, 5);
  }

  struct Outcome {
    std::vector<std::byte> y, dx, gradients;
    bool operator==(const Outcome&) const = default;
  };

  enum class Storing { kNo, kYes, kSpoiled };

  Outcome run(Storing storing) {
    BlockPass pass{.stream = stream_.get(),
                   .arch = &arch_,
                   .layer_idx = arch_.num_layers() - 1,
                   .batch = &batch_,
                   .dtype = dtype_,
                   .weights = weights_.bytes()};
    if (arch_.adapter.exists()) {
      pass.adapter = {.weights = adapter_.bytes(), .dropout_seed = 7, .dropout = arch_.adapter.dropout};
    }
    if (storing != Storing::kNo) pass.kept = kept_.bytes();
    const auto spoil = [](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0x3C}); };
    spoil(kept_.bytes());
    spoil(workspace_.bytes());
    spoil(gradients_.bytes());
    fill(y_, 2);
    block_forward(pass, x_, y_, Workspace(workspace_.bytes()));
    stream_->synchronize();
    Outcome outcome{.y = copy_of(y_.bytes())};
    if (storing == Storing::kSpoiled) spoil(kept_.bytes());
    spoil(workspace_.bytes());
    fill(y_, 6);
    block_backward(pass, gradients_.bytes(), x_, y_, y_, Workspace(workspace_.bytes()));
    stream_->synchronize();
    outcome.dx = copy_of(y_.bytes());
    outcome.gradients = copy_of(gradients_.bytes());
    return outcome;
  }

 private:
  std::vector<DocumentTokens> documents() {
    ids_.assign(kDocumentTokens, 1);
    return std::vector<DocumentTokens>(kDocuments, {.ids = ids_});
  }

  TensorView take(DType dtype, const Shape& shape, std::uint64_t seed) {
    memory_.push_back(
        device_.allocate(static_cast<std::uint64_t>(shape.num_elements()) * size_bytes(dtype), "a test's tensor"));
    const TensorView view(memory_.back().bytes(), dtype, shape);
    fill(view, seed);
    return view;
  }

  static void fill(const TensorView& view, std::uint64_t seed) {
    Random random(seed);
    const auto next = [&] { return static_cast<float>(static_cast<double>(random.next() >> 40U) / (1 << 24) - 0.5); };
    if (view.dtype() == DType::kF32) {
      for (float& value : view.as<float>()) value = next();
    } else {
      for (BF16& value : view.as<BF16>()) value = to_bf16(next());
    }
  }

  Architecture arch_;
  DType dtype_;
  CpuDevice device_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::int32_t> ids_;
  Batch batch_;
  std::vector<Buffer> memory_;
  TensorView x_, y_;
  Buffer workspace_, kept_;
  TensorView weights_, gradients_, adapter_;
};

class BlockKept : public testing::TestWithParam<std::string> {};

void expect_kept(const Architecture& arch) {
  using Storing = OneBlock::Storing;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    OneBlock block(arch, dtype);
    const OneBlock::Outcome recomputed = block.run(Storing::kNo);
    const OneBlock::Outcome stored = block.run(Storing::kYes);
    EXPECT_TRUE(stored.y == recomputed.y);
    EXPECT_TRUE(stored.dx == recomputed.dx);
    EXPECT_TRUE(stored.gradients == recomputed.gradients);
    const OneBlock::Outcome spoiled = block.run(Storing::kSpoiled);
    EXPECT_TRUE(spoiled.y == recomputed.y);
    EXPECT_FALSE(spoiled.dx == recomputed.dx) << "the backward goes by what was kept";
    EXPECT_FALSE(spoiled.gradients == recomputed.gradients);
  }
}

TEST_P(BlockKept, IsWhatTheBackwardWouldComputeAgain) {
  expect_kept(describe_model(read_config(kReferenceModels + "/" + GetParam() + "/config.json")).arch);
}

TEST_P(BlockKept, BesideAnAdapterToo) {
  const ModelDescription model = describe_model(read_config(kReferenceModels + "/" + GetParam() + "/config.json"));
  Architecture arch = model.arch;
  arch.adapter = make_adapter(model, {.rank = 3, .alpha = 6, .dropout = 0.25, .targets = {}});
  expect_kept(arch);
}

INSTANTIATE_TEST_SUITE_P(Models, BlockKept, testing::ValuesIn(reference_models()), [](const auto& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace sluice
