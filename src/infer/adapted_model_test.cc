// SPDX-License-Identifier: Apache-2.0
// An adapter applied at run time, compared with the same adapter merged into the weights.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"
#include "base/worker_team.h"
#include "infer/model_memory.h"
#include "model/adapter_merge.h"
#include "model/handmade_model.h"
#include "model/streamed_slices.h"

namespace sluice {
namespace {

using testing::HasSubstr;

const std::string kReferenceFiles = SLUICE_REFERENCE_DIR;

struct AdapterMatrix {
  Shape shape;
  std::vector<float> values;
};
using AdapterMatrices = std::map<std::string, AdapterMatrix>;  // keyed by PEFT tensor name

AdapterMatrix random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  AdapterMatrix matrix{.shape = {rows, columns}};
  Random random(seed);
  for (std::int64_t idx = 0; idx < rows * columns; ++idx) {
    matrix.values.push_back(static_cast<float>(static_cast<double>(random.below(2001)) / 1000 - 1) * 0.2F);
  }
  return matrix;
}

void add_module(AdapterMatrices& matrices, const std::string& module, std::int64_t rank, const Shape& weight) {
  const auto seed = static_cast<std::uint64_t>(matrices.size());
  matrices["base_model.model." + module + ".lora_A.weight"] = random_matrix(rank, weight[1], seed + 1);
  matrices["base_model.model." + module + ".lora_B.weight"] = random_matrix(weight[0], rank, seed + 2);
}

void write_adapter(const std::string& folder, const nlohmann::json& settings, const AdapterMatrices& matrices) {
  nlohmann::json config{{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}, {"bias", "none"}};
  config.update(settings);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) std::filesystem::remove(entry.path());
  PosixFileSystem files;
  ThreadsEngine engine(1);
  std::vector<PlannedTensor> tensors;
  for (const auto& [name, matrix] : matrices) tensors.push_back({name, DType::kF32, matrix.shape});
  CheckpointWriter writer(files, engine, folder, {.tensors = tensors, .only_file = kAdapterTensorsName});
  for (const auto& [name, matrix] : matrices) writer.write(std::as_bytes(std::span(matrix.values)));
  writer.finish();
  std::ofstream(folder + "/adapter_config.json") << config;
}

// The matrices of a reference adapter trained with torch for fifty steps.
AdapterMatrices trained_matrices(OpenedModel& opened, const std::string& name, nlohmann::json& settings) {
  const Checkpoint file(opened.files(), opened.engine(), kReferenceFiles + "/lora/" + name + ".safetensors");
  const auto setting = [&](const std::string& key) { return nlohmann::json::parse(file.metadata().at(key)); };
  settings = {{"r", setting("rank")}, {"lora_alpha", setting("alpha")}, {"use_rslora", setting("rslora")}};
  AdapterMatrices matrices;
  for (const TensorInfo& tensor : file.tensors()) {
    const std::string prefix = "final.";
    if (!tensor.name.starts_with(prefix)) continue;
    AdapterMatrix& matrix = matrices[tensor.name.substr(prefix.size())];
    matrix.shape = tensor.shape;
    matrix.values.resize(static_cast<std::size_t>(tensor.shape.num_elements()));
    file.read(tensor, 0, std::as_writable_bytes(std::span(matrix.values)));
  }
  return matrices;
}

void merge_into(const std::string& folder, OpenedModel& opened, const AdapterFolder& adapter,
                const nlohmann::json& config) {
  const AdapterMerge merge(opened.checkpoint(), adapter);
  CheckpointWriter writer(opened.files(), opened.engine(), folder, {.tensors = merge.planned_tensors()});
  WorkerTeam team(1);
  merge.write(writer, team, {});
  writer.finish();
  std::ofstream(folder + "/config.json") << config;
}

struct LogitsOf {
  std::vector<float> logits;
  bool streamed = false;
};

LogitsOf logits_of(const ModelParts& parts, DType dtype, std::uint64_t budget_bytes = 256 * kMiB) {
  ModelMemory memory(parts, {.budget_bytes = budget_bytes, .capacity_tokens = 32, .dtype = dtype, .num_threads = 2},
                     {});
  const std::vector<std::int32_t> ids = random_ids(parts.model->arch, 24, 9);
  memory.generator().read(std::span(ids).first(20));
  memory.generator().read(std::span(ids).subspan(20));  // reads from the KV caches
  const auto logits = memory.generator().logits();
  return {.logits = {logits.begin(), logits.end()}, .streamed = memory.streams()};
}

double distance(const std::vector<float>& found, const std::vector<float>& wanted) {
  double error = 0;
  double size = 0;
  for (std::size_t idx = 0; idx < wanted.size(); ++idx) {
    error = std::hypot(error, static_cast<double>(found[idx]) - static_cast<double>(wanted[idx]));
    size = std::hypot(size, static_cast<double>(wanted[idx]));
  }
  return error / size;
}

// A model opened with its adapter.
struct Adapted {
  Adapted(OpenedModel& opened, const std::string& folder)
      : adapter(opened.files(), opened.engine(), folder),
        model(describe_adapted(opened.model(), adapter)),
        slices(opened.checkpoint(), model) {}
  ModelParts parts() const { return {.slices = &slices, .model = &model, .adapter = &adapter}; }

  AdapterFolder adapter;
  ModelDescription model;
  CheckpointSlices slices;
};

// `from`: the reference model. In fp32, as merging in bf16 would round the weights once more.
void expect_the_merged_models_logits(const std::string& from, const nlohmann::json& settings,
                                     const AdapterMatrices& matrices) {
  nlohmann::json config = read_config(kReferenceFiles + "/models/" + from + "/config.json").json();
  const ScratchDirectory base;
  const ScratchDirectory folder;
  const ScratchDirectory merged;
  make_random_model(base.path(), config, {.spread = 0.2, .dtype = DType::kF32});
  OpenedModel opened(base.path());
  write_adapter(folder.path(), settings, matrices);
  const Adapted adapted(opened, folder.path());
  merge_into(merged.path(), opened, adapted.adapter, config);
  const OpenedModel whole(merged.path());
  const std::vector<float> found = logits_of(adapted.parts(), DType::kF32).logits;
  EXPECT_LE(distance(found, logits_of({.slices = &whole.slices(), .model = &whole.model()}, DType::kF32).logits), 2e-5);
  const std::vector<float> bare = logits_of({.slices = &opened.slices(), .model = &opened.model()}, DType::kF32).logits;
  EXPECT_GT(distance(bare, found), 1e-2) << "the adapter does nothing";
}

class TrainedAdapters : public testing::TestWithParam<std::string> {};

TEST_P(TrainedAdapters, GiveTheMergedModelsLogits) {
  OpenedModel opened(kReferenceFiles + "/models/" + GetParam());
  nlohmann::json settings;
  const AdapterMatrices matrices = trained_matrices(opened, GetParam(), settings);
  ASSERT_FALSE(matrices.empty());
  expect_the_merged_models_logits(GetParam(), settings, matrices);
}

INSTANTIATE_TEST_SUITE_P(Torch, TrainedAdapters,
                         testing::Values("llama-biases-tied", "phi3-partial-rotary-tied", "qwen3"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Falcon's slices order rows differently from its checkpoint.
TEST(AdaptedModel, RanksScalesAndLayersMayDiffer) {
  for (const std::string name : {"falcon-40b", "gemma2"}) {
    const OpenedModel opened(kReferenceFiles + "/models/" + name);
    AdapterMatrices matrices;
    std::string last;
    for (const TensorInfo& tensor : opened.checkpoint().tensors()) {
      const std::size_t end = tensor.name.rfind(".weight");
      const bool in_block =
          tensor.name.find(".h.") != std::string::npos || tensor.name.find(".layers.") != std::string::npos;
      if (!in_block || tensor.shape.rank() != 2 || end == std::string::npos) continue;
      const bool in_first = tensor.name.find(".0.") != std::string::npos;
      const bool is_wide = tensor.name.find("query_key_value") != std::string::npos ||
                           tensor.name.find("down_proj") != std::string::npos;
      if (in_first && !is_wide) continue;  // this layer lacks some modules
      add_module(matrices, tensor.name.substr(0, end), is_wide ? 6 : 4, tensor.shape);
    }
    expect_the_merged_models_logits(name,
                                    {{"rank_pattern", {{"query_key_value", 6}, {"down_proj", 6}}},
                                     {"alpha_pattern", {{"query_key_value", 3}, {"down_proj", 5}}}},
                                    matrices);
  }
}

TEST(AdaptedModel, StreamedWeightsGiveTheSameBitsWithinTheBudget) {
  const ScratchDirectory base;
  const ScratchDirectory folder;
  make_random_model(base.path(), streamable_config(), {.spread = 0.1});
  OpenedModel opened(base.path());
  AdapterMatrices matrices;
  add_module(matrices, "model.layers.1.mlp.down_proj", 4, {256, 680});
  add_module(matrices, "model.layers.2.self_attn.v_proj", 4, {128, 256});
  write_adapter(folder.path(), nlohmann::json::object(), matrices);
  const Adapted adapted(opened, folder.path());
  const Architecture& arch = adapted.model.arch;
  const LogitsOf resident = logits_of(adapted.parts(), DType::kBF16);
  EXPECT_FALSE(resident.streamed);
  const std::uint64_t least_bytes =
      PlacedModel::streamed_bytes(arch, DType::kBF16, 1) + Generator::size_bytes(arch, DType::kBF16, 32);
  EXPECT_GT(least_bytes, StreamedSlices::least_bytes(arch, DType::kBF16) +
                             Generator::size_bytes(opened.arch(), DType::kBF16, 32) +
                             std::uint64_t{3} * 4 * (680 + 256 + 256 + 128) * sizeof(float))
      << "the adapter is counted";
  const LogitsOf streamed = logits_of(adapted.parts(), DType::kBF16, least_bytes);
  EXPECT_TRUE(streamed.streamed);
  EXPECT_EQ(streamed.logits, resident.logits);
  EXPECT_THROW(logits_of(adapted.parts(), DType::kBF16, least_bytes - kMiB), OutOfBudget);
}

TEST(AdaptedModel, WhatDoesNotFitIsRefusedByName) {
  OpenedModel opened(kReferenceFiles + "/models/llama");
  const std::string q_proj = "model.layers.0.self_attn.q_proj";
  const auto refusal = [&](const AdapterMatrices& matrices) -> std::string {
    const ScratchDirectory folder;
    write_adapter(folder.path(), nlohmann::json::object(), matrices);
    try {
      const Adapted adapted(opened, folder.path());
      logits_of(adapted.parts(), DType::kF32);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  AdapterMatrices wide;
  add_module(wide, q_proj, 4, {64, 32});
  EXPECT_THAT(refusal(wide), testing::AllOf(HasSubstr("(64, 32)"), HasSubstr("(32, 32)"), HasSubstr(q_proj)));
  AdapterMatrices deep;
  add_module(deep, "model.layers.70.self_attn.q_proj", 4, {32, 32});
  EXPECT_THAT(refusal(deep), testing::AllOf(HasSubstr("model.layers.70"), HasSubstr("another model")));
  AdapterMatrices head;
  add_module(head, "lm_head", 4, {67, 32});
  EXPECT_THAT(refusal(head), testing::AllOf(HasSubstr("lm_head"), HasSubstr("sluice merge")));
  AdapterMatrices saved;
  saved["base_model.model.lm_head.weight"] = random_matrix(67, 32, 1);
  EXPECT_THAT(refusal(saved), testing::AllOf(HasSubstr("modules_to_save"), HasSubstr("sluice merge")));
  AdapterMatrices damaged;
  add_module(damaged, q_proj, 4, {32, 32});
  damaged.begin()->second.values[5] = NAN;
  EXPECT_THAT(refusal(damaged), testing::AllOf(HasSubstr("not finite"), HasSubstr("lora_A")));
}

}  // namespace
}  // namespace sluice
