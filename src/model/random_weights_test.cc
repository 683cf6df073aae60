// SPDX-License-Identifier: Apache-2.0
#include "model/random_weights.h"

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bf16.h"
#include "base/error.h"
#include "model/handmade_model.h"
#include "model/reference_models.h"

namespace sluice {
namespace {

std::vector<std::byte> weight_file(const nlohmann::json& config, const RandomWeights& weights,
                                   std::size_t num_threads) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), config, weights, num_threads);
  return bytes_of(folder.path("model.safetensors"));
}

TEST(RandomWeights, AreTheSameForAnyNumberOfThreadsAndDifferBySeed) {
  const auto one = weight_file(streamable_config(), {.seed = 7}, 1);
  EXPECT_TRUE(one == weight_file(streamable_config(), {.seed = 7}, 3));
  EXPECT_FALSE(one == weight_file(streamable_config(), {.seed = 8}, 3));
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments_of(std::span<const float> values) {
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto count = static_cast<double>(values.size());
  return {.mean = sum / count, .deviation = std::sqrt(squares / count - sum / count * sum / count)};
}

// Every parameter of every slice: matrices have the spread, norms do nothing, biases are zero.
void expect_initialised(const std::string& reference, float norm_weight) {
  SCOPED_TRACE(reference);
  const ScratchDirectory folder;
  nlohmann::json config = read_config(kReferenceModels + "/" + reference + "/config.json").json();
  config["vocab_size"] = 2000;
  make_random_model(folder.path(), config, {.seed = 3, .spread = 0.05, .dtype = DType::kF32});
  const OpenedModel opened(folder.path());
  for (std::size_t slice_idx = 0; slice_idx < num_slices(opened.arch()); ++slice_idx) {
    const SliceLayout layout = slice_layout(opened.arch(), slice_idx);
    std::vector<float> slice(layout.num_elements());
    opened.slices().read(slice_idx, DType::kF32, std::as_writable_bytes(std::span(slice)));
    for (const Parameter& parameter : layout.parameters()) {
      const auto count = static_cast<std::size_t>(parameter.shape.num_elements());
      const Moments moments = moments_of(std::span(slice).subspan(parameter.offset, count));
      const int param = static_cast<int>(parameter.param);
      if (parameter.shape.rank() == 2) {
        // Five standard errors; those of a deviation are below those of a mean.
        const double error = 5 * 0.05 / std::sqrt(static_cast<double>(count));
        EXPECT_NEAR(moments.mean, 0, error) << param;
        EXPECT_NEAR(moments.deviation, 0.05, error) << param;
        continue;
      }
      const bool is_bias = parameter.param == Param::kAttentionNormBias || parameter.param == Param::kMlpNormBias ||
                           parameter.param == Param::kFinalNormBias || parameter.param == Param::kQkvBias ||
                           parameter.param == Param::kOutBias || parameter.param == Param::kUpBias ||
                           parameter.param == Param::kDownBias;
      EXPECT_EQ(moments.mean, is_bias ? 0 : norm_weight) << param;
      EXPECT_EQ(moments.deviation, 0) << param;
    }
  }
}

TEST(RandomWeights, HaveTheSpreadAskedForAndNormsThatDoNothing) {
  expect_initialised("llama", 1);
  expect_initialised("qwen3-biases-tied", 1);
  expect_initialised("gemma3", 0);  // its norms add one
  expect_initialised("opt", 1);
  expect_initialised("falcon-serial-biases", 1);
}

TEST(RandomWeights, SpreadIsTwoHundredthsUnlessAskedFor) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), streamable_config(), {});
  const OpenedModel opened(folder.path());
  std::vector<float> slice(slice_layout(opened.arch(), embedding_slice(0)).num_elements());
  opened.slices().read(embedding_slice(0), DType::kF32, std::as_writable_bytes(std::span(slice)));
  EXPECT_NEAR(moments_of(slice).deviation, 0.02, 1e-4);
}

TEST(RandomWeights, InterruptedTheyLeaveNothingBehind) {
  const ScratchDirectory folder;
  PosixFileSystem files;
  ThreadsEngine engine(1);
  WorkerTeam team(1);
  const ModelDescription model = describe_model(ConfigReader("handmade", streamable_config()));
  {
    CheckpointWriter writer(files, engine, folder.path(), {.tensors = plan_tensors(model, DType::kBF16)});
    int calls = 0;
    EXPECT_THROW(write_random_weights(writer, model, {}, team, {.interrupted = [&] { return ++calls > 5; }}),
                 Cancelled);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace sluice
