// SPDX-License-Identifier: Apache-2.0
#include "data/prepared_data.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/batch_loader.h"
#include "data/handmade_text.h"
#include "data/held_out.h"
#include "io/fake/fake_disk.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kRows =
    "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"cd\", \"completion\": \"ef\"}\n";

class PreparedDataTest : public testing::Test {
 protected:
  PreparedDataTest() : engine_(disk_) {
    write_handmade_model(folder_.path(), kChatMl);
    write_text(rows_path(), kRows);
    text_ = load_model_text(folder_.path());
  }

  std::string rows_path() const { return folder_.path("rows.jsonl"); }

  PreparedData prepare(const ExampleOptions& options = {}, BadRows bad_rows = BadRows::kRefuse) {
    const ExampleMaker maker(text_, options);
    num_made_ = 0;
    return prepare_data({disk_, engine_, "/p/data", {.files = {rows_path()}}, maker, bad_rows},
                        {.report = [&](const WorkProgress&) { ++num_made_; }});
  }

  ScratchDirectory folder_;
  FakeDisk disk_;
  FakeEngine engine_;
  ModelText text_;
  int num_made_ = 0;  // how often rows were read
};

TEST_F(PreparedDataTest, GivesBackWhatWasMade) {
  const PreparedData data = prepare();
  ASSERT_EQ(data.num_examples(), 2U);
  EXPECT_EQ(data.read(1), example_of("<s>cd[[ef</s>]]"));
  EXPECT_EQ(data.read(0), example_of("<s>a[[b</s>]]"));
  EXPECT_EQ(data.num_tokens(1), 6U);
  EXPECT_EQ(data.counts().num_rows, 2U);
  EXPECT_EQ(data.counts().num_learned_tokens, 5U);
}

TEST_F(PreparedDataTest, IsMadeOnceAndAgainWhenAnythingChanges) {
  prepare();
  EXPECT_GT(num_made_, 0);
  prepare();
  EXPECT_EQ(num_made_, 0);
  prepare({.sequence_len = 4});
  EXPECT_GT(num_made_, 0);
  const auto time = std::filesystem::last_write_time(rows_path());
  std::string changed = kRows;
  changed[changed.find("cd")] = 'x';
  write_text(rows_path(), changed);
  std::filesystem::last_write_time(rows_path(), time);  // same size, same time
  EXPECT_EQ(prepare({.sequence_len = 4}).read(1), example_of("<s>xd[[e"));
  EXPECT_GT(num_made_, 0);
  write_text(folder_.path("chat_template.jinja"), "{{ messages }}");
  prepare({.sequence_len = 4});
  EXPECT_GT(num_made_, 0);
}

TEST_F(PreparedDataTest, OfEachFileTheFirstRowsAreTakenWhereThatIsAskedFor) {
  const std::string more = folder_.path("more.jsonl");
  write_text(more, "{\"prompt\": 1}\n{\"prompt\": \"g\", \"completion\": \"h\"}\n" + std::string(kRows));
  const std::string whole = folder_.path("whole.txt");
  write_text(whole, std::string(3 << 20, 'a'));  // one row, of several parts
  const ExampleMaker maker(text_, {.sequence_len = 1 << 20});
  const auto prepare_rows = [&](std::optional<std::uint64_t> max_rows) {
    return prepare_data({disk_,
                         engine_,
                         "/p/data",
                         {.files = {rows_path(), more, whole}, .max_rows = max_rows},
                         maker,
                         BadRows::kSkip});
  };
  const std::uint64_t num_text = prepare_rows(std::nullopt).num_examples() - 5;
  EXPECT_GT(num_text, 1U);
  const PreparedData one = prepare_rows(1);
  ASSERT_EQ(one.num_examples(), 2 + num_text);
  EXPECT_EQ(one.read(0), example_of("<s>a[[b</s>]]"));
  EXPECT_EQ(one.read(1), example_of("<s>g[[h</s>]]"));
  EXPECT_EQ(one.counts().num_rows, 3U);
  EXPECT_EQ(prepare_rows(2).num_examples(), 4 + num_text);
}

TEST_F(PreparedDataTest, DamageIsFoundAndMended) {
  prepare();
  disk_.flip_bit("/p/data", 8 * 20);  // the header
  EXPECT_EQ(prepare().read(0), example_of("<s>a[[b</s>]]"));
  EXPECT_GT(num_made_, 0);
  disk_.flip_bit("/p/data", 8 * kPreparedHeaderBytes + 1);
  const PreparedData data = prepare();
  EXPECT_THROW(data.read(0), FormatError);
  EXPECT_EQ(data.read(1), example_of("<s>cd[[ef</s>]]"));
}

TEST_F(PreparedDataTest, NothingIsLeftWhereTheDriveIsFull) {
  disk_.set_hook(
      [](const FakeOperation& operation) { return operation.op == FakeOp::kSync ? Fault::kEnospc : Fault::kNone; });
  EXPECT_THROW(prepare(), IoError);
  disk_.set_hook({});
  EXPECT_FALSE(disk_.exists("/p/data"));
  EXPECT_FALSE(disk_.exists("/p/data.part"));
}

TEST_F(PreparedDataTest, BadRowsAreRefusedOrLeftOut) {
  write_text(rows_path(), std::string(kRows) + "{\"prompt\": 1, \"completion\": \"x\"}\n");
  try {
    prepare();
    FAIL() << "they were taken";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("rows.jsonl:3:prompt: prompt and completion"));
  }
  const PreparedData data = prepare({}, BadRows::kSkip);
  EXPECT_EQ(data.num_examples(), 2U);
  EXPECT_EQ(data.counts().num_bad, 1U);
}

TEST_F(PreparedDataTest, WhatRowsHoldBesideTheirExamplesIsSaidOnce) {
  write_text(rows_path(),
             "{\"question\": \"q\", \"answer\": \"a\", \"label\": true, \"id\": 1}\n"
             "{\"question\": \"q\", \"answer\": \"a\", \"label\": false}\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(prepare({}, BadRows::kSkip).num_examples(), 1U);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("left out: "));
  EXPECT_THAT(said, HasSubstr("rows.jsonl:2:label: the row's answer is marked as a bad one"));
  EXPECT_THAT(said, HasSubstr("1 row: label is true"));
  EXPECT_THAT(said, HasSubstr("Keys of rows that are ignored: id (1 row)."));
  testing::internal::CaptureStderr();
  prepare({}, BadRows::kSkip);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

class BatchLoaderTest : public PreparedDataTest {
 protected:
  BatchLoaderTest() {
    std::string rows;
    for (int i = 0; i < 23; ++i)
      rows += "{\"text\": \"" + std::string(static_cast<std::size_t>(1 + i % 9), 'a') + "\"}\n";
    write_text(rows_path(), rows);
  }
};

std::vector<std::vector<std::size_t>> shape(const TrainingStep& step) {
  std::vector<std::vector<std::size_t>> lengths;
  for (const MicroBatch& micro_batch : step.micro_batches) {
    lengths.emplace_back();
    for (const Example& document : micro_batch.documents) lengths.back().push_back(document.ids.size());
  }
  return lengths;
}

TEST_F(BatchLoaderTest, EveryDocumentIsSeenOnceAnEpochWithinTheSizes) {
  const PreparedData data = prepare({.sequence_len = 16});
  for (const Packing packing : {Packing::kPacked, Packing::kOneDocument}) {
    BatchLoader loader(data, split_examples(23, 0, 0).train,
                       {.sequence_len = 16, .micro_batch_size = 2, .accumulation = 3, .packing = packing, .seed = 5});
    std::size_t num_documents = 0;
    std::size_t num_tokens = 0;
    const std::uint64_t num_steps = loader.num_steps(0);
    for (std::uint64_t i = 0; i < num_steps; ++i) {
      EXPECT_EQ(loader.state(), (LoaderState{0, i}));
      const TrainingStep step = loader.next();
      EXPECT_LE(step.micro_batches.size(), 3U);
      for (const MicroBatch& micro_batch : step.micro_batches) {
        EXPECT_LE(micro_batch.num_tokens(), 32U);
        num_documents += micro_batch.documents.size();
        num_tokens += micro_batch.num_tokens();
      }
    }
    EXPECT_EQ(loader.state(), (LoaderState{1, 0}));
    EXPECT_EQ(num_documents, 23U);
    EXPECT_EQ(num_tokens, data.counts().num_tokens);
    // 23 sequences are 12 micro-batches, the last of one, and 4 steps.
    if (packing == Packing::kOneDocument) {
      EXPECT_EQ(num_steps, 4U);
    }
  }
}

TEST_F(BatchLoaderTest, GoesOnWhereItStoodAndShufflesEachEpoch) {
  const PreparedData data = prepare({.sequence_len = 16});
  const BatchOptions options{.sequence_len = 16, .accumulation = 2, .seed = 5};
  BatchLoader whole(data, split_examples(23, 0, 0).train, options);
  std::vector<std::vector<std::vector<std::size_t>>> steps;
  std::vector<LoaderState> states;
  const std::uint64_t per_epoch = whole.num_steps(0);
  for (std::uint64_t i = 0; i < per_epoch + whole.num_steps(1); ++i) {
    states.push_back(whole.state());
    steps.push_back(shape(whole.next()));
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    BatchLoader resumed(data, split_examples(23, 0, 0).train, options);
    resumed.seek(states[i]);
    EXPECT_EQ(shape(resumed.next()), steps[i]) << i;
  }
  EXPECT_NE(steps[0], steps[per_epoch]);
  EXPECT_THROW(whole.seek({.epoch = 0, .step_in_epoch = per_epoch}), InvalidInput);
}

TEST_F(BatchLoaderTest, RefusesWhatDoesNotFit) {
  const PreparedData data = prepare({.sequence_len = 16});
  EXPECT_THROW(BatchLoader(data, split_examples(23, 0, 0).train, {.sequence_len = 8}), InvalidInput);
  EXPECT_THROW(BatchLoader(data, {}, {.sequence_len = 16}), InvalidInput);
  EXPECT_THROW(BatchLoader(data, {0}, {.sequence_len = 16, .micro_batch_size = 0}), InvalidInput);
}

}  // namespace
}  // namespace sluice
