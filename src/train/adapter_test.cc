// SPDX-License-Identifier: Apache-2.0
// Adapters: their gradients against differences of the loss, and what a run with them leaves alone.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"
#include "model/adapter_layout.h"
#include "model/adapter_sites.h"
#include "train/device_step.h"
#include "train/handmade_run.h"
#include "train/training_session.h"

namespace sluice {
namespace {

const std::string kModels = std::string(SLUICE_REFERENCE_DIR) + "/models/";

Architecture with_adapter(const ModelDescription& model, const AdapterSettings& settings) {
  Architecture arch = model.arch;
  arch.adapter = make_adapter(model, settings);
  return arch;
}

TEST(AdapterSites, AreTheCheckpointsOwnMatrices) {
  const OpenedModel llama(kModels + "llama-biases-tied");
  const Adapter all = make_adapter(llama.model(), {.rank = 4, .alpha = 8});
  EXPECT_THAT(module_names(all),
              testing::ElementsAre("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"));
  EXPECT_EQ(all.scale(), 2);
  EXPECT_EQ(make_adapter(llama.model(), {.rank = 4, .alpha = 8, .rslora = true}).scale(), 4);

  const Adapter some = make_adapter(llama.model(), {.rank = 4, .targets = {"mlp.up_proj", "k_proj"}});
  ASSERT_EQ(some.sites.size(), 2U);
  EXPECT_EQ(some.sites[0].first_row, llama.arch().q_width());
  EXPECT_EQ(some.sites[0].num_rows, llama.arch().kv_width());
  EXPECT_EQ(some.sites[1].first_row, llama.arch().intermediate);

  try {
    make_adapter(llama.model(), {.rank = 4, .targets = {"proj"}});
    FAIL() << "the end of a name is not a name";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("proj is not a matrix in a block of this model (llama); its blocks "
                                                 "have q_proj, k_proj"));
  }
}

// Falcon's heads are grouped in its checkpoint: PEFT's B has the checkpoint's order of rows, ours has the slice's.
TEST(AdapterSites, RowsOfBFollowTheMatrix) {
  const OpenedModel falcon(kModels + "falcon-40b");
  ModelDescription model = falcon.model();
  model.arch = with_adapter(model, {.rank = 2, .targets = {"query_key_value"}});
  const std::size_t slice_idx = block_slice(model.arch, 1);
  const auto placements = place_adapter_tensors(model, slice_idx);
  ASSERT_EQ(placements.size(), 2U);
  EXPECT_EQ(placements[1].name, "base_model.model.transformer.h.1.self_attention.query_key_value.lora_B.weight");
  const std::uint64_t b_offset = AdapterLayout(model.arch).parts().front().b.front().offset;
  std::map<std::uint64_t, std::uint64_t> slice_row_of;  // by the checkpoint's row
  for (const TensorPiece& piece : placements[1].pieces) {
    for (std::uint64_t at = 0; at < piece.count; at += 2) {
      slice_row_of[(piece.tensor_offset + at) / 2] = (piece.slice_offset + at - b_offset) / 2;
    }
  }
  ASSERT_EQ(slice_row_of.size(), static_cast<std::size_t>(model.arch.qkv_width()));
  const auto head = static_cast<std::uint64_t>(model.arch.head_dim);
  // The first group: two heads of q, its key, its value.
  EXPECT_EQ(slice_row_of[0], 0U);
  EXPECT_EQ(slice_row_of[2 * head], static_cast<std::uint64_t>(model.arch.q_width()));
  EXPECT_EQ(slice_row_of[3 * head], static_cast<std::uint64_t>(model.arch.q_width() + model.arch.kv_width()));
  EXPECT_EQ(slice_row_of[4 * head], 2 * head);
}

struct GradientCase {
  std::string model;
  AdapterSettings settings;
  std::size_t num_documents = 3;
};

class AdapterGradients : public testing::TestWithParam<GradientCase> {};

// A step along a random direction of one matrix changes the loss as its gradient says.
TEST_P(AdapterGradients, AreDifferencesOfTheLoss) {
  const OpenedModel opened(kModels + GetParam().model);
  const Architecture arch = with_adapter(opened.model(), GetParam().settings);
  CpuDevice device(32 * kMiB, 2);
  const std::size_t num_documents = GetParam().num_documents;
  DeviceStep step(device, opened.slices(), arch, DType::kF32, static_cast<std::int64_t>(20 * num_documents));
  const std::vector<std::int32_t> ids = random_ids(arch, 20 * num_documents, 1);
  std::vector<std::int32_t> labels(ids.begin() + 1, ids.end());
  labels.push_back(-100);
  PackedDocuments documents;
  for (std::size_t idx = 0; idx < num_documents; ++idx) {
    documents.push_back(
        {.ids = std::span(ids).subspan(20 * idx, 20), .labels = std::span(labels).subspan(20 * idx, 20)});
  }
  Random random(3);
  const auto uniform = [&] { return static_cast<float>(static_cast<double>(random.next() >> 11) * 0x1p-52 - 1); };
  for (std::int64_t layer = 0; layer < arch.num_layers(); ++layer) {
    for (float& value : step.adapter(block_slice(arch, layer))) value = 0.2F * uniform();
  }
  step.run(documents);
  for (std::int64_t layer = 0; layer < arch.num_layers(); ++layer) {
    const std::size_t slice_idx = block_slice(arch, layer);
    const std::span<float> weights = step.adapter(slice_idx);
    const std::span<float> found = step.gradients(slice_idx);
    const std::vector<float> gradients(found.begin(), found.end());
    const SliceLayout layout = trained_layout(arch, slice_idx);
    for (const Parameter& parameter : layout.parameters()) {
      const auto count = static_cast<std::size_t>(parameter.shape.num_elements());
      const std::span<float> matrix = weights.subspan(parameter.offset, count);
      const std::vector<float> before(matrix.begin(), matrix.end());
      std::vector<float> direction(count);
      double slope = 0;
      double size = 0;
      for (std::size_t idx = 0; idx < count; ++idx) {
        const float gradient = gradients[parameter.offset + idx];
        // Mostly along the gradient, so that the difference stands above the rounding.
        direction[idx] = gradient + 0.3F * std::abs(gradient) * uniform();
        slope += static_cast<double>(gradient) * static_cast<double>(direction[idx]);
        size = std::hypot(size, static_cast<double>(direction[idx]));
      }
      ASSERT_GT(size, 1e-5) << "layer " << layer << ", parameter at " << parameter.offset;
      const auto loss_at = [&](double distance) {
        for (std::size_t idx = 0; idx < count; ++idx) {
          matrix[idx] = before[idx] + static_cast<float>(distance / size * static_cast<double>(direction[idx]));
        }
        return step.run(documents).loss;
      };
      // Two differences, so that the loss's curvature falls out up to the fourth power.
      constexpr double kNear = 3e-3;
      const double near = loss_at(kNear) - loss_at(-kNear);
      const double far = loss_at(2 * kNear) - loss_at(-2 * kNear);
      std::copy(before.begin(), before.end(), matrix.begin());
      EXPECT_NEAR((8 * near - far) / (12 * kNear), slope / size, 0.005 * slope / size + 5e-4)
          << "layer " << layer << ", parameter at " << parameter.offset;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, AdapterGradients,
    testing::Values(GradientCase{"llama-biases-tied", {.rank = 3, .alpha = 6}},
                    GradientCase{"llama-biases-tied", {.rank = 4, .alpha = 8, .dropout = 0.3}},
                    // More than the MLP takes at a time.
                    GradientCase{"qwen2", {.rank = 2, .alpha = 4, .dropout = 0.5}, 60},
                    GradientCase{"gemma3", {.rank = 2, .alpha = 3, .targets = {"k_proj", "o_proj", "down_proj"}}},
                    GradientCase{"phi3-partial-rotary-tied", {.rank = 4, .alpha = 4, .rslora = true}},
                    GradientCase{"qwen3", {.rank = 2, .alpha = 4}}, GradientCase{"falcon-40b", {.rank = 3, .alpha = 6}},
                    GradientCase{"falcon-7b", {.rank = 3, .alpha = 6, .targets = {"dense", "dense_h_to_4h"}}}),
    [](const auto& parameter) {
      std::string name = parameter.param.model + (parameter.param.settings.dropout > 0 ? "_dropout" : "");
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

SessionOptions options_for(const ModelDescription& model, const std::string& directory, SliceHomes homes) {
  return {.model = &model,
          .schedule = {.wave = 2, .batch_tokens = kRunBatchTokens, .homes = homes_of(model.arch, homes)},
          .buffers = {.chunk_bytes = 64 * kKiB, .staging_bytes = 2 * kMiB, .optimizer_windows = 3},
          .device_bytes = 16 * kMiB,
          .host_bytes = 128 * kMiB,
          .store_directories = {directory},
          .num_threads = 2};
}

// Where weights are on the drives, no step and no commit writes them again; where they are in memory, no commit does.
TEST(Adapter, WeightsAreWrittenOnceOrNever) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), deep_config(3), {.spread = 0.1});
  const OpenedModel opened(folder.path());
  ModelDescription model = opened.model();
  model.arch = with_adapter(model, {.rank = 4, .alpha = 8});
  for (const SliceHomes homes : {kOnDrives, kOnHost, kOnDevice}) {
    const ScratchDirectory directory;
    TrainingSession session(options_for(model, directory.path(), homes));
    session.begin(opened.slices(), "0", {});
    session.commit("0");
    const auto weights = [&] {
      std::map<std::string, SliceRef> versions;
      for (const SliceRef& version : session.store().committed()) {
        if (version->key().starts_with("w/")) versions[version->key()] = version;
      }
      return versions;
    };
    const auto before = weights();
    EXPECT_EQ(before.size(), homes.weights == Home::kNvme ? num_slices(model.arch) : 0);
    const SliceRef adapter = session.store().find("a/block.1");
    RandomSteps data(model.arch);
    for (std::int64_t step = 1; step <= 2; ++step) {
      session.step(data.step(step), {.adam = {.learning_rate = 1e-2, .step = step}}, "");
    }
    session.commit("2");
    EXPECT_EQ(weights(), before);
    EXPECT_NE(session.store().find("a/block.1"), adapter);
  }
}

// Another plan may have room for them; what lay on the drives goes with the next commit, and comes back where it must.
TEST(Adapter, WeightsThatMoveIntoMemoryLeaveTheDrives) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), deep_config(3), {.spread = 0.1});
  const OpenedModel opened(folder.path());
  ModelDescription model = opened.model();
  model.arch = with_adapter(model, {.rank = 4, .alpha = 8});
  const ScratchDirectory directory;
  RandomSteps data(model.arch);
  std::int64_t step = 0;
  for (const SliceHomes homes : {kOnDrives, kOnDevice, kOnDrives, kOnHost}) {
    TrainingSession session(options_for(model, directory.path(), homes));
    if (step == 0) {
      session.begin(opened.slices(), "0", {});
    } else {
      session.resume(opened.slices());
    }
    ++step;
    session.step(data.step(step), {.adam = {.learning_rate = 1e-2, .step = step}}, std::to_string(step));
    session.commit(std::to_string(step));
    const std::vector<SliceRef> committed = session.store().committed();
    const auto num_weights = std::count_if(committed.begin(), committed.end(),
                                           [](const SliceRef& version) { return version->key().starts_with("w/"); });
    EXPECT_EQ(static_cast<std::size_t>(num_weights), homes.weights == Home::kNvme ? num_slices(model.arch) : 0);
  }
}

}  // namespace
}  // namespace sluice
