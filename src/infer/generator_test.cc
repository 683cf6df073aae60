// SPDX-License-Identifier: Apache-2.0
// Reading piece by piece through the caches against one pass over all tokens without any.
#include "infer/generator.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"
#include "device/cpu/cpu_device.h"
#include "infer/continuation.h"
#include "infer/model_memory.h"
#include "io/fake/fake_disk.h"
#include "model/handmade_model.h"
#include "model/streamed_slices.h"

namespace sluice {
namespace {

const std::string kReferenceModels = SLUICE_REFERENCE_DIR "/models";
constexpr std::uint64_t kArenaBytes = 256 << 20;

class Document {
 public:
  Document(const OpenedModel& opened, std::int64_t capacity_tokens)
      : arch_(opened.arch()),
        source_(device_, opened.slices(), arch_, DType::kF32),
        capacity_tokens_(capacity_tokens) {}

  Generator generator() { return {device_, parts(), capacity_tokens_}; }

  // Logits after each of the tokens, from one pass.
  std::vector<std::vector<float>> logits_of(const std::vector<std::int32_t>& ids) {
    const auto count = static_cast<std::int64_t>(ids.size());
    const DocumentTokens document{.ids = ids};
    const Batch batch(device_, *stream_, arch_, std::span(&document, 1));
    ForwardPass forward(device_, parts(), {.batch_tokens = count, .logit_rows = count});
    forward.run(batch);
    const auto logits = forward.logits(batch, 0, count).as<float>();
    std::vector<std::vector<float>> rows;
    for (auto at = logits.begin(); at != logits.end(); at += arch_.vocab) rows.emplace_back(at, at + arch_.vocab);
    return rows;
  }

 private:
  ForwardParts parts() { return {.stream = stream_.get(), .arch = &arch_, .slices = &source_}; }

  const Architecture& arch_;
  CpuDevice device_{kArenaBytes, 2};
  std::unique_ptr<Stream> stream_ = device_.make_stream("compute");
  ResidentSlices source_;
  std::int64_t capacity_tokens_;
};

double relative_error(std::span<const float> found, const std::vector<float>& expected) {
  double error = 0;
  double size = 0;
  for (std::size_t idx = 0; idx < expected.size(); ++idx) {
    error = std::hypot(error, static_cast<double>(found[idx]) - static_cast<double>(expected[idx]));
    size = std::hypot(size, static_cast<double>(expected[idx]));
  }
  return error / size;
}

class CachedReading : public testing::TestWithParam<std::string> {};

TEST_P(CachedReading, GivesTheLogitsOfOnePassWithoutACache) {
  const OpenedModel opened(kReferenceModels + "/" + GetParam());
  const std::vector<std::int32_t> ids = random_ids(opened.arch(), 40, 5);
  Document document(opened, 48);
  const auto expected = document.logits_of(ids);
  Generator generator = document.generator();
  std::span<const std::int32_t> left = ids;
  for (const std::size_t count : {17, 1, 1, 1, 1, 1, 1, 1, 5, 9, 1, 1}) {  // past every window there is
    generator.read(left.first(count));
    left = left.subspan(count);
    const auto at = generator.ids().size() - 1;
    ASSERT_EQ(at + 1, ids.size() - left.size());
    EXPECT_LE(relative_error(generator.logits(), expected[at]), 1e-5) << "after " << at + 1 << " tokens";
  }
  EXPECT_TRUE(left.empty());
}

INSTANTIATE_TEST_SUITE_P(Families, CachedReading,
                         testing::Values("llama", "llama-rope-yarn", "mistral-window", "qwen2", "qwen2-window-tied",
                                         "qwen3", "gemma2", "gemma3", "phi3-window", "phi3-longrope-long", "opt",
                                         "falcon-7b", "falcon-40b"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Its tokens turn otherwise in documents beyond the original context, those before the crossing included.
TEST(Generator, LongRopeStartsAnewWhereTheDocumentCrossesTheOriginalContext) {
  const OpenedModel opened(kReferenceModels + "/phi3-longrope-long");
  ASSERT_EQ(opened.arch().ropes.front().original_max_positions, 16);
  const std::vector<std::int32_t> ids = random_ids(opened.arch(), 20, 8);
  Document document(opened, 20);
  Generator generator = document.generator();
  std::span<const std::int32_t> left = ids;
  for (const std::size_t count : {12, 3, 1, 1, 1, 2}) {
    generator.read(left.first(count));
    left = left.subspan(count);
    const std::vector<std::int32_t> so_far(generator.ids().begin(), generator.ids().end());
    EXPECT_LE(relative_error(generator.logits(), document.logits_of(so_far).back()), 1e-5) << so_far.size();
  }
}

nlohmann::json long_config() {
  return {{"model_type", "mistral"},  {"hidden_size", 32},     {"intermediate_size", 48},
          {"num_hidden_layers", 2},   {"vocab_size", 67},      {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"sliding_window", 600}, {"max_position_embeddings", 4096}};
}

TEST(Generator, PromptsLongerThanAPieceAreReadInPieces) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), long_config(), {.spread = 0.3, .dtype = DType::kF32});
  const OpenedModel opened(folder.path());
  const std::vector<std::int32_t> ids = random_ids(opened.arch(), 2 * Generator::kPromptTokens + 100, 6);
  Document document(opened, static_cast<std::int64_t>(ids.size()));
  const auto expected = document.logits_of(ids);
  Generator generator = document.generator();
  int pieces = 0;
  generator.read(ids, [&] {
    ++pieces;
    return false;
  });
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(generator.ids().size(), ids.size());
  EXPECT_LE(relative_error(generator.logits(), expected.back()), 1e-5);
}

TEST(Generator, CanBeInterruptedBetweenPieces) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), long_config(), {});
  const OpenedModel opened(folder.path());
  Document document(opened, 2000);
  Generator generator = document.generator();
  int calls = 0;
  EXPECT_THROW(generator.read(random_ids(opened.arch(), 2000, 1), [&] { return ++calls > 1; }), Cancelled);
  EXPECT_TRUE(generator.ids().empty());
}

// What is refused changes nothing: the document goes on as if it had not been asked.
TEST(Generator, TokensThatDoNotFitAreRefusedAndTheDocumentGoesOn) {
  const OpenedModel opened(kReferenceModels + "/llama");
  const std::vector<std::int32_t> ids = random_ids(opened.arch(), 20, 7);
  Document document(opened, 20);
  const auto expected = document.logits_of(ids);
  Generator generator = document.generator();
  generator.read(std::span(ids).first(10));
  EXPECT_THROW(generator.read(ids), InvalidInput);  // 30 of 20
  const auto vocab = static_cast<std::int32_t>(opened.arch().vocab);
  EXPECT_THROW(generator.read(std::vector<std::int32_t>{3, vocab}), InvalidInput);
  EXPECT_THROW(generator.read(std::vector<std::int32_t>{-1}), InvalidInput);
  EXPECT_EQ(generator.ids().size(), 10U);
  generator.read(std::span(ids).subspan(10));
  EXPECT_LE(relative_error(generator.logits(), expected.back()), 1e-5);
}

TEST(Generator, AReadThatFailsOnTheDriveCanBeTriedAgain) {
  FakeDisk disk;
  FakeEngine engine(disk);
  const ModelDescription model = describe_model(ConfigReader("handmade", streamable_config()));
  {
    WorkerTeam team(1);
    CheckpointWriter writer(disk, engine, "/model", {.tensors = plan_tensors(model, DType::kBF16)});
    write_random_weights(writer, model, {.spread = 0.1}, team, {});
    writer.finish();
  }
  const Checkpoint checkpoint(disk, engine, "/model/model.safetensors");
  const CheckpointSlices slices(checkpoint, model);
  const std::vector<std::int32_t> ids = random_ids(model.arch, 12, 3);
  const std::uint64_t least_bytes =
      StreamedSlices::least_bytes(model.arch, DType::kBF16) + Generator::size_bytes(model.arch, DType::kBF16, 16);
  const auto logits_after = [&](const std::vector<int>& failing_reads) {
    ModelMemory memory({.slices = &slices, .model = &model},
                       {.budget_bytes = least_bytes, .capacity_tokens = 16, .num_threads = 2}, {});
    memory.generator().read(std::span(ids).first(6));
    for (const int failing : failing_reads) {
      int num_reads = 0;
      disk.set_hook([&](const FakeOperation& operation) {
        return operation.op == FakeOp::kRead && num_reads++ == failing ? Fault::kEio : Fault::kNone;
      });
      EXPECT_THROW(memory.generator().read(std::span(ids).subspan(6)), IoError);
      EXPECT_EQ(memory.generator().ids().size(), 6U);
    }
    disk.set_hook(nullptr);
    memory.generator().read(std::span(ids).subspan(6));
    const auto logits = memory.generator().logits();
    return std::vector<float>(logits.begin(), logits.end());
  };
  EXPECT_EQ(logits_after({0, 3, 12}), logits_after({}));
}

TEST(Generator, LearnedPositionsEndSomewhere) {
  const OpenedModel opened(kReferenceModels + "/opt");
  Document document(opened, 80);
  Generator generator = document.generator();
  generator.read(random_ids(opened.arch(), 64, 1));
  EXPECT_THROW(generator.read(random_ids(opened.arch(), 1, 1)), InvalidInput);
}

TEST(Continuation, GreedyTokensAreThoseOfPassesWithoutACache) {
  const OpenedModel opened(kReferenceModels + "/gemma2");
  std::vector<std::int32_t> ids = random_ids(opened.arch(), 7, 8);
  Document document(opened, 40);
  Generator generator = document.generator();
  generator.read(ids);
  Sampler sampler({.temperature = 0});
  std::vector<std::int32_t> found;
  const FinishReason reason = continue_document(generator, sampler, {.max_new_tokens = 12}, [&](std::int32_t id) {
    found.push_back(id);
    return true;
  });
  EXPECT_EQ(reason, FinishReason::kLength);
  ASSERT_EQ(found.size(), 12U);
  for (const std::int32_t id : found) {
    const auto logits = document.logits_of(ids).back();
    const auto likeliest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    ASSERT_EQ(id, likeliest);
    ids.push_back(id);
  }
}

TEST(Continuation, EndsAtAnEndTokenOrWhenItsListenerHasEnough) {
  const OpenedModel opened(kReferenceModels + "/llama");
  const std::vector<std::int32_t> ids = random_ids(opened.arch(), 7, 8);
  Document document(opened, 40);
  const auto run = [&](const ContinuationLimits& limits, std::size_t stop_after, std::vector<std::int32_t>& found) {
    Generator generator = document.generator();
    generator.read(ids);
    Sampler sampler({.seed = 9});
    return continue_document(generator, sampler, limits, [&](std::int32_t id) {
      found.push_back(id);
      return found.size() < stop_after;
    });
  };
  std::vector<std::int32_t> whole;
  EXPECT_EQ(run({.max_new_tokens = 20}, 99, whole), FinishReason::kLength);
  std::vector<std::int32_t> interrupted;
  EXPECT_EQ(run({.max_new_tokens = 20}, 4, interrupted), FinishReason::kInterrupted);
  EXPECT_EQ(interrupted, std::vector<std::int32_t>(whole.begin(), whole.begin() + 4));
  std::vector<std::int32_t> ended;
  EXPECT_EQ(run({.max_new_tokens = 20, .end_ids = {whole[9]}}, 99, ended), FinishReason::kStop);
  const auto end = std::find(whole.begin(), whole.end(), whole[9]);
  EXPECT_EQ(ended, std::vector<std::int32_t>(whole.begin(), end));  // the end itself is not passed on
}

// The least that the refusal names is enough, and holds the same numbers as having everything in memory.
TEST(ModelMemory, WhatARefusalNamesWillDoAndChangesNoNumber) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), streamable_config(), {.spread = 0.1});
  const OpenedModel opened(folder.path());
  const std::vector<std::int32_t> ids = random_ids(opened.arch(), 30, 1);
  const auto logits_within = [&](std::uint64_t budget_bytes, bool streams) {
    ModelMemory memory({.slices = &opened.slices(), .model = &opened.model()},
                       {.budget_bytes = budget_bytes, .capacity_tokens = 64, .dtype = DType::kBF16, .num_threads = 2},
                       {});
    EXPECT_EQ(memory.streams(), streams);
    memory.generator().read(ids);
    const auto logits = memory.generator().logits();
    return std::vector<float>(logits.begin(), logits.end());
  };
  std::uint64_t least_bytes = 0;
  try {
    logits_within(1, true);
    FAIL() << "nothing was refused";
  } catch (const OutOfBudget& error) {
    const std::string message = error.what();
    const std::string before = "at least ";
    const std::size_t at = message.find(before);
    ASSERT_NE(at, std::string::npos) << message;
    const std::string figure = message.substr(at + before.size(), message.find(" (", at) - at - before.size());
    least_bytes = parse_bytes(figure);
  }
  const auto resident = logits_within(kArenaBytes, false);
  EXPECT_EQ(logits_within(least_bytes, true), resident);
  EXPECT_EQ(logits_within(least_bytes + (3 << 20), true), resident);
  EXPECT_THROW(logits_within(least_bytes - 2 * kMiB, true), OutOfBudget);
}

// Tokens take what the weights leave as they would lie beside the fewest tokens: kept, read ahead, or read in turn.
TEST(ModelMemory, RoomForTokensMovesNoWeights) {
  constexpr std::int64_t kLeast = 64;
  const ScratchDirectory folder;
  make_random_model(folder.path(), streamable_config(), {.spread = 0.1});
  const OpenedModel opened(folder.path());
  const Architecture& arch = opened.arch();
  const auto token_bytes = [&](std::int64_t tokens) { return Generator::size_bytes(arch, DType::kBF16, tokens); };
  const auto room = [&](std::uint64_t budget_bytes, std::int64_t wanted) {
    return ModelMemory::room_tokens(
        arch, {.budget_bytes = budget_bytes, .capacity_tokens = wanted, .dtype = DType::kBF16}, kLeast);
  };
  std::uint64_t more_bytes = UINT64_MAX;
  for (const std::uint64_t weight_bytes :
       {ResidentSlices::size_bytes(arch, DType::kBF16), StreamedSlices::least_bytes(arch, DType::kBF16, 2),
        StreamedSlices::least_bytes(arch, DType::kBF16)}) {
    const std::uint64_t budget_bytes = weight_bytes + token_bytes(300);
    ASSERT_GT(more_bytes, budget_bytes);
    const std::int64_t found = room(budget_bytes, 100'000).value();
    EXPECT_LE(weight_bytes + token_bytes(found), budget_bytes);
    EXPECT_GT(weight_bytes + token_bytes(found + 1), budget_bytes);
    EXPECT_EQ(room(budget_bytes, kLeast + 6), kLeast + 6);
    more_bytes = weight_bytes + token_bytes(kLeast);
  }
  EXPECT_EQ(room(more_bytes, 100'000), kLeast);
  EXPECT_EQ(room(more_bytes - 1, 100'000), std::nullopt);
}

}  // namespace
}  // namespace sluice
