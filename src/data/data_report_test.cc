// SPDX-License-Identifier: Apache-2.0
#include "data/data_report.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/handmade_text.h"

namespace sluice {
namespace {

using testing::ElementsAre;

std::vector<std::string> bins(const LengthSummary& summary) {
  std::vector<std::string> texts;
  for (const LengthBin& bin : summary.bins) {
    texts.push_back(std::to_string(bin.begin) + "-" + std::to_string(bin.end) + ":" + std::to_string(bin.num_rows));
  }
  return texts;
}

TEST(LengthSummary, BinsAreRoundAndEndAtTheSequenceLength) {
  const std::vector<std::uint32_t> lengths{1, 2, 19, 20, 21, 35, 40, 41, 500};
  const LengthSummary summary = summarize_lengths(lengths, 40);
  EXPECT_THAT(bins(summary), ElementsAre("0-5:2", "5-10:0", "10-15:0", "15-20:1", "20-25:2", "25-30:0", "30-35:0",
                                         "35-40:1", "40-41:1", "41-501:2"));
  EXPECT_EQ(summary.shortest, 1U);
  EXPECT_EQ(summary.median, 21U);
  EXPECT_EQ(summary.percentile_95, 500U);
  EXPECT_EQ(summary.longest, 500U);
  EXPECT_THAT(bins(summarize_lengths({3, 5}, 4096)), ElementsAre("0-1:0", "1-2:0", "2-3:0", "3-4:1", "4-5:0", "5-6:1"));
  EXPECT_TRUE(summarize_lengths({}, 4096).bins.empty());
}

std::vector<std::string> sample_of(const std::string& folder, const std::string& row) {
  write_text(folder + "/rows.jsonl", row);
  const ModelText text = load_model_text(folder);
  const ExampleMaker maker(text, {});
  const DataReport report = check_data({.files = {folder + "/rows.jsonl"}}, maker);
  std::vector<std::string> runs;
  for (const SampleRun& run : report.samples.at(0).runs) runs.push_back((run.learned ? "+" : "-") + run.text);
  return runs;
}

TEST(DataReport, SamplesShowWhatIsLearned) {
  const ScratchDirectory folder;
  write_handmade_model(folder.path(), kChatMl);
  EXPECT_THAT(sample_of(folder.path(), R"({"question": "q", "answer": "a b"})"),
              ElementsAre("-<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n", "+a b<|im_end|>", "-\n"));
}

// A token that is a byte is written once the next one shows that the character is complete.
TEST(DataReport, ALineEndBeforeAnAnswerIsNotPartOfIt) {
  const ScratchDirectory folder;
  write_text(folder.path("tokenizer.json"), R"({
    "version": "1.0",
    "added_tokens": [{"id": 1, "content": "</s>", "special": true, "normalized": false}],
    "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
    "model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "merges": [],
              "vocab": {"<unk>": 0, "</s>": 1, "<0x0A>": 2, "a": 3, "b": 4, ":": 5}}})");
  write_text(folder.path("tokenizer_config.json"), R"({"eos_token": "</s>"})");
  EXPECT_THAT(sample_of(folder.path(), R"({"prompt": "a:\n", "completion": "b"})"), ElementsAre("-a:\n", "+b</s>"));
}

}  // namespace
}  // namespace sluice
