// SPDX-License-Identifier: Apache-2.0
// Losses compared with those of transformers (tests/reference/models).
#include "evaluate/loss_pass.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/units.h"
#include "infer/placed_model.h"
#include "model/handmade_model.h"
#include "model/reference_models.h"

namespace sluice {
namespace {

template <typename T>
std::vector<T> values_of(const Checkpoint& file, const std::string& name) {
  const TensorInfo& tensor = file.require(name);
  std::vector<T> values(tensor.size_bytes / sizeof(T));
  file.read(tensor, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

// A reference model's tokens, packed as in the transformers run.
struct ReferenceTokens {
  explicit ReferenceTokens(const Checkpoint& file)
      : ids(values_of<std::int32_t>(file, "input_ids")),
        labels(values_of<std::int32_t>(file, "labels")),
        lengths(values_of<std::int32_t>(file, "documents")) {}

  PackedDocuments documents() const {
    PackedDocuments documents;
    std::size_t first = 0;
    for (const std::int32_t length : lengths) {
      const auto count = static_cast<std::size_t>(length);
      documents.push_back(
          {.ids = std::span(ids).subspan(first, count), .labels = std::span(labels).subspan(first, count)});
      first += count;
    }
    return documents;
  }

  std::vector<std::int32_t> ids, labels, lengths;
};

class ReferenceLosses : public testing::TestWithParam<std::string> {};

TEST_P(ReferenceLosses, AreThoseOfTransformers) {
  OpenedModel opened(kReferenceModels + "/" + GetParam());
  const Checkpoint expected(opened.files(), opened.engine(),
                            kReferenceModels + "/" + GetParam() + "/expected.safetensors");
  const ReferenceTokens tokens(expected);
  PlacedModel placed({.slices = &opened.slices(), .model = &opened.model()},
                     {.budget_bytes = 64 * kMiB, .other_bytes = 32 * kMiB, .dtype = DType::kF32, .num_threads = 2}, {});
  const auto count = static_cast<std::int64_t>(tokens.ids.size());
  LossPass pass(placed.device(), placed.forward_parts(), {.batch_tokens = count, .num_batches = 2});
  const PackedDocuments documents = tokens.documents();
  const std::vector<PackedDocuments> batches{documents, documents};
  const std::vector<float> losses = pass.run(batches);
  ASSERT_EQ(losses.size(), 2 * tokens.ids.size());
  double sum = 0;
  std::int64_t num_labels = 0;
  for (std::size_t idx = 0; idx < tokens.ids.size(); ++idx) {
    EXPECT_EQ(losses[idx], losses[tokens.ids.size() + idx]) << "batches know nothing of each other";
    if (tokens.labels[idx] < 0) {
      EXPECT_EQ(losses[idx], 0);
      continue;
    }
    sum += static_cast<double>(losses[idx]);
    ++num_labels;
  }
  const double wanted = static_cast<double>(values_of<float>(expected, "loss").front());
  EXPECT_NEAR(sum / static_cast<double>(num_labels), wanted, 1e-5 * wanted);
}

INSTANTIATE_TEST_SUITE_P(Families, ReferenceLosses, testing::ValuesIn(reference_models()), [](const auto& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Losses with streamed weights are bitwise equal to those with resident weights, for any number of batches per pass.
TEST(LossPass, StreamedWeightsGiveTheSameBits) {
  const ScratchDirectory folder;
  nlohmann::json config = streamable_config();
  config["vocab_size"] = 40000;  // two ranges
  make_random_model(folder.path(), config, {.spread = 0.1});
  const OpenedModel opened(folder.path());
  const ModelParts parts{.slices = &opened.slices(), .model = &opened.model()};
  const std::vector<std::int32_t> ids = random_ids(opened.arch(), 50, 4);
  const std::vector<std::int32_t> labels = random_ids(opened.arch(), 50, 5);
  const auto document = [&](std::size_t first, std::size_t count) {
    return DocumentTokens{.ids = std::span(ids).subspan(first, count),
                          .labels = std::span(labels).subspan(first, count)};
  };
  const std::vector<PackedDocuments> batches{{document(0, 20)}, {document(20, 7), document(27, 5)}, {document(32, 18)}};
  const auto losses = [&](std::uint64_t budget_bytes, std::int64_t together) {
    const std::uint64_t other_bytes =
        LossPass::shared_bytes(opened.arch(), DType::kBF16, 20) +
        static_cast<std::uint64_t>(together) * LossPass::bytes_per_batch(opened.arch(), DType::kBF16, 20);
    PlacedModel placed(parts,
                       {.budget_bytes = budget_bytes + other_bytes, .other_bytes = other_bytes, .num_threads = 2}, {});
    EXPECT_EQ(placed.streams(), budget_bytes < PlacedModel::resident_bytes(opened.arch(), DType::kBF16));
    LossPass pass(placed.device(), placed.forward_parts(), {.batch_tokens = 20, .num_batches = together});
    std::vector<float> all;
    for (std::size_t first = 0; first < batches.size(); first += static_cast<std::size_t>(together)) {
      const std::size_t count = std::min(batches.size() - first, static_cast<std::size_t>(together));
      const std::vector<float> found = pass.run(std::span(batches).subspan(first, count));
      all.insert(all.end(), found.begin(), found.end());
    }
    return all;
  };
  const std::vector<float> resident = losses(PlacedModel::resident_bytes(opened.arch(), DType::kBF16), 1);
  EXPECT_EQ(resident.size(), 50U);
  EXPECT_EQ(losses(PlacedModel::streamed_bytes(opened.arch(), DType::kBF16, 1), 1), resident);
  EXPECT_EQ(losses(PlacedModel::streamed_bytes(opened.arch(), DType::kBF16, 2), 3), resident);
}

}  // namespace
}  // namespace sluice
