// SPDX-License-Identifier: Apache-2.0
#include "data/example_maker.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/handmade_text.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ExampleMakerTest : public testing::Test {
 protected:
  DocumentExamples make(const std::string& json, std::string_view chat_template = kChatMl,
                        const ExampleOptions& options = {}) {
    ScratchDirectory folder;
    write_handmade_model(folder.path(), chat_template);
    const ModelText text = load_model_text(folder.path());
    const Row row{.value = RowJson::parse(json)};
    return ExampleMaker(text, options).make(document_of_row(detect_schema(row.value), row));
  }
};

TEST_F(ExampleMakerTest, ALabelIsTheNextTokenWhereThatIsLearned) {
  // By hand: 4 is '!', ids rise with ASCII.
  const DocumentExamples made = make(R"({"text": "!#"})");
  ASSERT_EQ(made.examples.size(), 1U);
  EXPECT_THAT(made.examples[0].ids, ElementsAre(0, 4, 6, 1));
  EXPECT_THAT(made.examples[0].labels, ElementsAre(4, 6, 1, -100));
}

TEST_F(ExampleMakerTest, TheAssistantsWordsAndTheEndOfItsTurnAreLearned) {
  const std::string row = R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"},
      {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "See you"}]})";
  EXPECT_THAT(
      make(row).examples,
      ElementsAre(example_of("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[Yo<|im_end|>]]\n"
                             "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n[[See you<|im_end|>]]\n")));
  EXPECT_THAT(make(row, kChatMl, {.learn = Learn::kEverything}).examples,
              ElementsAre(example_of("[[<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n"
                                     "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nSee you<|im_end|>\n]]")));
}

TEST_F(ExampleMakerTest, OfMessagesInAPromptNothingIsLearned) {
  EXPECT_THAT(make(R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                       {"role": "user", "content": "c"}], "completion": [{"role": "assistant", "content": "d"}]})")
                  .examples,
              ElementsAre(example_of("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
                                     "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n[[d<|im_end|>]]\n")));
}

TEST_F(ExampleMakerTest, OfRawTextTheCompletionAndTheEndAreLearned) {
  EXPECT_THAT(make(R"({"prompt": "2+2=", "completion": "4"})").examples, ElementsAre(example_of("<s>2+2=[[4</s>]]")));
  // One token covers the last byte of the prompt and the first of the completion.
  EXPECT_THAT(make(R"({"prompt": "a\n", "completion": "\nb"})").examples, ElementsAre(example_of("<s>a[[\n\nb</s>]]")));
}

TEST_F(ExampleMakerTest, AlpacaForAModelWithoutTemplateIsItsClassicPrompt) {
  const std::string row = R"({"instruction": "Add 1 and 2", "output": "3"})";
  EXPECT_THAT(make(row, "").examples,
              ElementsAre(example_of("<s>Below is an instruction that describes a task. Write a response that "
                                     "appropriately completes the request.\n\n### Instruction:\nAdd 1 and 2\n\n"
                                     "### Response:\n[[3</s>]]")));
  EXPECT_THAT(make(row).examples, ElementsAre(example_of("<|im_start|>user\nAdd 1 and 2<|im_end|>\n<|im_start|>"
                                                         "assistant\n[[3<|im_end|>]]\n")));
}

TEST_F(ExampleMakerTest, ConversationsNeedATemplate) {
  try {
    make(R"({"question": "q", "answer": "a"})", "");
    FAIL() << "it was taken";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("give one as chat_template"));
  }
}

TEST_F(ExampleMakerTest, LongRowsKeepTheirHeadAndOnesWithoutLabelsAreDropped) {
  const DocumentExamples cut = make(R"({"prompt": "ab", "completion": "cd"})", kChatMl, {.sequence_len = 4});
  EXPECT_TRUE(cut.truncated);
  EXPECT_EQ(cut.num_tokens, 6U);
  EXPECT_THAT(cut.examples, ElementsAre(example_of("<s>ab[[c")));
  const DocumentExamples dropped = make(R"({"prompt": "abc", "completion": "d"})", kChatMl, {.sequence_len = 4});
  EXPECT_TRUE(dropped.truncated);
  EXPECT_TRUE(dropped.examples.empty());
  EXPECT_FALSE(make(R"({"prompt": "a", "completion": "d"})", kChatMl, {.sequence_len = 4}).truncated);
}

TEST_F(ExampleMakerTest, PlainTextGoesOnInTheNextExample) {
  ScratchDirectory folder;
  write_handmade_model(folder.path(), "");
  const ModelText text = load_model_text(folder.path());
  const ExampleMaker maker(text, {.sequence_len = 3});
  const auto part = [](const char* words, TextPart which) {
    return document_of_row(RowSchema::kText, {.value = {{"text", words}}, .part = which});
  };
  EXPECT_THAT(maker.make(part("abcde", {.first = true, .last = false})).examples,
              ElementsAre(example_of("[[<s>ab"), example_of("[[cde")));
  EXPECT_THAT(maker.make(part("fghi", {.first = false, .last = true})).examples,
              ElementsAre(example_of("[[fgh"), example_of("[[i</s>")));
}

TEST_F(ExampleMakerTest, ATemplateOfOnesOwnTakesThePlaceOfTheModels) {
  ScratchDirectory folder;
  write_handmade_model(folder.path(), kChatMl);
  write_text(folder.path("own.jinja"),
             "{{ bos_token }}{% for m in messages %}{{ m.role[0] }}:{{ m.content }}"
             "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}");
  const ModelText text = load_model_text(folder.path(), folder.path("own.jinja"));
  const Row row{.value = RowJson::parse(R"({"question": "q", "answer": "x"})")};
  EXPECT_THAT(ExampleMaker(text, {}).make(document_of_row(RowSchema::kQuestionAnswer, row)).examples,
              ElementsAre(example_of("<s>u:q</s>a:[[x</s>]]")));
}

}  // namespace
}  // namespace sluice
