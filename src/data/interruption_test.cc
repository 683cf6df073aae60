// SPDX-License-Identifier: Apache-2.0
// Cancellation before the first training step: every stage polls often enough, here within a few polls.
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/batch_loader.h"
#include "data/data_report.h"
#include "data/handmade_text.h"
#include "data/prepared_data.h"
#include "data/row_reader.h"
#include "io/fake/fake_disk.h"

namespace sluice {
namespace {

// Returns true from the n-th poll on.
std::function<bool()> stop_at(int& num_asked, int n) {
  return [&num_asked, n] { return ++num_asked >= n; };
}

class InterruptionTest : public testing::Test {
 protected:
  InterruptionTest() {
    write_handmade_model(folder_.path(), kChatMl);
    text_ = load_model_text(folder_.path());
  }

  ScratchDirectory folder_;
  ModelText text_;
  int num_asked_ = 0;
};

TEST_F(InterruptionTest, ReadingALineThatNeverEndsIsStopped) {
  // A line beyond the row limit: skipping the rest of it may read a whole drive, so it must poll.
  std::istringstream stream(std::string(4 << 20, 'x'));
  const auto reader =
      read_rows(stream, "f", RowFormat::kJsonLines, {.max_row_bytes = 16, .interrupted = stop_at(num_asked_, 5)});
  RowProblems problems;
  EXPECT_THROW(reader->next(problems), Cancelled);
  EXPECT_EQ(num_asked_, 5);
}

TEST_F(InterruptionTest, TheJsonOfOneRowIsStopped) {
  std::string list = "[1";
  for (int i = 0; i < 100'000; ++i) list += ",1";
  EXPECT_THROW(parse_row_json(list + "]", "", stop_at(num_asked_, 3)), Cancelled);
  EXPECT_EQ(num_asked_, 3);
}

TEST_F(InterruptionTest, TheTokensOfOneTextAreStopped) {
  std::string words;
  for (int i = 0; i < 50'000; ++i) words += "a <s> ";
  EXPECT_THROW(text_.tokenizer->encode_with_ranges(words, AddSpecial::kNo, stop_at(num_asked_, 3)), Cancelled);
  EXPECT_EQ(num_asked_, 3);
}

TEST_F(InterruptionTest, TheTokensOfOneLongWordAreStopped) {
  EXPECT_THROW(text_.tokenizer->encode(std::string(100'000, '\n'), AddSpecial::kNo, stop_at(num_asked_, 3)), Cancelled);
  EXPECT_EQ(num_asked_, 3);
}

TEST_F(InterruptionTest, OneLongConversationIsStopped) {
  RowJson messages = RowJson::array();
  for (int i = 0; i < 20'000; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", "words"}});
  }
  const Row row{.value = {{"messages", messages}}};
  const Document document = document_of_row(RowSchema::kMessages, row);
  const ExampleMaker maker(text_, {});
  for (int n = 1; n < 100; n += 3) {
    num_asked_ = 0;
    EXPECT_THROW(maker.make(document, stop_at(num_asked_, n)), Cancelled) << n;
    EXPECT_EQ(num_asked_, n);
  }
}

TEST_F(InterruptionTest, PackingIsStopped) {
  const std::vector<std::uint32_t> lengths(300'000, 3);
  EXPECT_THROW(plan_sequences(lengths, 8, Packing::kPacked, 1, stop_at(num_asked_, 4)), Cancelled);
  EXPECT_EQ(num_asked_, 4);
}

TEST_F(InterruptionTest, PreparingIsStoppedWhereverItStandsAndLeavesNothing) {
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += R"({"question": "q", "answer": ")" + std::string(1000, 'a') + "\"}\n";
  write_text(folder_.path("rows.jsonl"), rows);
  const ExampleMaker maker(text_, {});
  for (int n = 1;; ++n) {
    num_asked_ = 0;
    FakeDisk disk;
    FakeEngine engine(disk);
    const PrepareRequest request{disk, engine, "/p/data", {.files = {folder_.path("rows.jsonl")}}, maker};
    try {
      prepare_data(request, {.interrupted = stop_at(num_asked_, n)});
      EXPECT_GT(n, 40);
      break;
    } catch (const Cancelled&) {
      EXPECT_EQ(num_asked_, n);
      EXPECT_FALSE(disk.exists("/p/data") || disk.exists("/p/data.part"));
    }
  }
}

}  // namespace
}  // namespace sluice
