// SPDX-License-Identifier: Apache-2.0
#include "data/template_losses.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/example_maker.h"
#include "data/handmade_text.h"
#include "data/row_problem.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Writes tools, calls with their arguments, and the last answer's thoughts.
constexpr const char* kWritesCalls =
    "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}"
    "{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content and loop.last %}({{ m.reasoning_content }})"
    "{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}[{{ c.function.name }} "
    "{{ c.function.arguments | tojson }}]{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

constexpr const char* kGlaive =
    R"({"conversations": [{"from": "human", "value": "q"},
        {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
        {"from": "observation", "value": "r"}, {"from": "gpt", "value": "a"}],
        "tools": "[{\"name\": \"f\", \"parameters\": {}}]"})";

DocumentExamples made_of(const std::string& json, std::string_view chat_template = kChatMl,
                         const ExampleOptions& options = {}) {
  ScratchDirectory folder;
  write_handmade_model(folder.path(), chat_template);
  const ModelText text = load_model_text(folder.path());
  const Row row{.value = RowJson::parse(json)};
  return ExampleMaker(text, options).make(document_of_row(detect_schema(row.value), row));
}

std::string loss_of(const std::string& json, std::string_view chat_template = kChatMl) {
  try {
    made_of(json, chat_template);
  } catch (const BadRow& bad) {
    return bad.key() + ": " + bad.what();
  }
  return "it was taken";
}

TEST(TemplateLosses, CallsThatAreNotWrittenMakeABadRow) {
  EXPECT_THAT(loss_of(kGlaive), HasSubstr("conversations[1].tool_calls: the chat template does not write tool calls"));
  EXPECT_THAT(loss_of(R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
                          {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}}]})"),
              HasSubstr("messages[2].tool_calls: "));
  // A call written without its arguments counts as lost.
  EXPECT_THAT(loss_of(kGlaive,
                      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
                      "{{ c.function.name }}{% endfor %}\n{% endfor %}"),
              HasSubstr("conversations[1].tool_calls: "));
}

TEST(TemplateLosses, CallsAndToolsThatAreWrittenAreTrained) {
  const DocumentExamples made = made_of(kGlaive, kWritesCalls);
  EXPECT_THAT(made.examples, ElementsAre(example_of("f;<user>q<|im_end|>\n<assistant>[[[f {\"x\": 1}]<|im_end|>]]\n"
                                                    "<tool>r<|im_end|>\n<assistant>[[a<|im_end|>]]\n")));
  EXPECT_THAT(made.leftovers.notes, IsEmpty());
}

TEST(TemplateLosses, ToolsAloneAreANote) {
  const std::string row = R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
                              "tools": [{"name": "f"}]})";
  EXPECT_THAT(made_of(row).leftovers.notes, ElementsAre(HasSubstr("does not write tools")));
  EXPECT_THAT(made_of(row, kWritesCalls).leftovers.notes, IsEmpty());
}

TEST(TemplateLosses, WhoIsNotHeardMakesABadRowUnlessItIsTheSystem) {
  constexpr const char* kDeaf =
      "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}<{{ m.role }}>{{ m.content | upper }}\n{% endif "
      "%}"
      "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_THAT(loss_of(R"({"messages": [{"role": "user", "content": "q"}, {"role": "tool", "content": "r"},
                          {"role": "assistant", "content": "a"}]})",
                      kDeaf),
              HasSubstr("messages[1].content: the chat template does not write what the role tool says"));
  EXPECT_THAT(made_of(R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
                          {"role": "assistant", "content": "a"}]})",
                      kDeaf)
                  .leftovers.notes,
              ElementsAre(HasSubstr("what the system says")));
}

TEST(TemplateLosses, ThoughtsAndOtherKeysThatAreLeftOutAreNotes) {
  const std::string row = R"({"messages": [{"role": "user", "content": "q", "name": "Ann"},
      {"role": "assistant", "content": "a", "reasoning_content": "t"}, {"role": "user", "content": "r"},
      {"role": "assistant", "content": "b", "reasoning_content": "u"}]})";
  EXPECT_THAT(made_of(row, kWritesCalls).leftovers.notes,
              ElementsAre(HasSubstr("leaves out thoughts"), HasSubstr("does not write the messages' \"name\"")));
  const std::string last = R"({"messages": [{"role": "user", "content": "q"},
      {"role": "assistant", "content": "a", "reasoning_content": "t"}]})";
  EXPECT_THAT(made_of(last, kWritesCalls).leftovers.notes, IsEmpty());
  // A template may write a message as a whole.
  EXPECT_THAT(made_of(row, "{% for m in messages %}{{ m | tojson }}\n{% endfor %}").leftovers.notes, IsEmpty());
}

TEST(TemplateLosses, EmptyAnswersAreCounted) {
  EXPECT_THAT(made_of(R"({"question": "q", "answer": ""})").leftovers.notes, ElementsAre(HasSubstr("is empty")));
}

TEST(TemplateLosses, PartsOfTextAreWrittenWhateverTheTemplateTakes) {
  const std::string row = R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]},
      {"role": "assistant", "content": [{"type": "text", "value": "a"}, {"type": "text", "text": "b"}]}]})";
  EXPECT_THAT(made_of(row).examples, ElementsAre(example_of("<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
                                                            "[[ab<|im_end|>]]\n")));
  constexpr const char* kParts =
      "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{{ p.text }}+{% endfor %};{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_THAT(made_of(row, kParts).examples, ElementsAre(example_of("<user>q+;<assistant>[[a+b+;]]")));
}

// OpenAI writes arguments as a JSON string. Most templates serialize arguments to JSON, some write them unchanged.
TEST(TemplateLosses, ArgumentsAreWrittenOnceAsJson) {
  const std::string row = R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "",
      "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]}]})";
  EXPECT_THAT(made_of(row, kWritesCalls).examples,
              ElementsAre(example_of("<user>q<|im_end|>\n<assistant>[[[f {\"x\": 1}]<|im_end|>]]\n")));
  constexpr const char* kWritesStrings =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.name + c.function.arguments }}{% endfor %};{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_THAT(made_of(row, kWritesStrings).examples, ElementsAre(example_of("<user>q;<assistant>[[f{\"x\": 1};]]")));
}

TEST(TemplateLosses, AMessageThatOnlyCallsToolsSaysNothingWhateverTheTemplateTakes) {
  const auto row = [](const std::string& content) {
    return R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": )" + content +
           R"(, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]}]})";
  };
  constexpr const char* kTellsByNull =
      "{% for m in messages %}<{{ m.role }}>{% if m.content is none %}{{ m.tool_calls[0].function.name }} "
      "{{ m.tool_calls[0].function.arguments | tojson }}"
      "{% else %}{{ m.content }}{% endif %};{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  for (const char* const content : {"\"\"", "null"}) {
    EXPECT_THAT(made_of(row(content), kWritesCalls).examples,
                ElementsAre(example_of("<user>q<|im_end|>\n<assistant>[[[f {\"x\": 1}]<|im_end|>]]\n")));
    EXPECT_THAT(made_of(row(content), kTellsByNull).examples,
                ElementsAre(example_of("<user>q;<assistant>[[f {\"x\": 1};]]")))
        << content;
  }
}

class TrainingWishes : public testing::TestWithParam<const char*> {};

TEST_P(TrainingWishes, OfAMessageAreHonoured) {
  const std::string row = std::string(R"({"messages": [{"role": "user", "content": "q"},
      {"role": "assistant", "content": "a", )") +
                          GetParam() + R"(}, {"role": "user", "content": "r"},
      {"role": "assistant", "content": "b"}]})";
  const std::string_view answers =
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n"
      "<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n[[b<|im_end|>]]\n";
  EXPECT_THAT(made_of(row).examples, ElementsAre(example_of(answers)));
  const std::string_view everything =
      "[[<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n]]a<|im_end|>[[\n"
      "<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n]]";
  EXPECT_THAT(made_of(row, kChatMl, {.learn = Learn::kEverything}).examples, ElementsAre(example_of(everything)));
}

INSTANTIATE_TEST_SUITE_P(Keys, TrainingWishes,
                         testing::Values(R"("weight": 0)", R"("loss_weight": 0.0)", R"("train": false)",
                                         R"("training": false)", R"("loss": false)"));

TEST(TrainingWishes, OfOthersOrInBetweenAreRefused) {
  const auto row = [](const std::string& user, const std::string& assistant) {
    return R"({"messages": [{"role": "user", "content": "q")" + user + R"(}, {"role": "assistant", "content": "a")" +
           assistant + "}]}";
  };
  EXPECT_THAT(loss_of(row("", R"(, "weight": 0.5)")), HasSubstr("messages[1].weight: wanted 0 or 1"));
  EXPECT_THAT(loss_of(row("", R"(, "weight": 0, "train": true)")), HasSubstr("both yes and no"));
  EXPECT_THAT(loss_of(row("", R"(, "train_detail": [{"begin_offset": 0}])")), HasSubstr("messages[1].train_detail: "));
  EXPECT_THAT(loss_of(row(R"(, "train": true)", "")), HasSubstr("messages[0]: the message wants to be trained on"));
  EXPECT_EQ(loss_of(row(R"(, "train": false)", R"(, "train": true)")), "it was taken");
  EXPECT_TRUE(made_of(row("", R"(, "weight": 0)")).examples.empty());
}

TEST(TrainingWishes, OfMarkedSpansGoByTheirMessage) {
  constexpr const char* kMarked =
      "{% for m in messages %}{% if m.role == 'assistant' %}A{% generation %}{{ m.content }}{% endgeneration %}"
      "{% else %}U{{ m.content }}{% endif %};{% endfor %}";
  EXPECT_THAT(made_of(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": ""},
      {"role": "assistant", "content": "a", "weight": 0}, {"role": "assistant", "content": "b"}]})",
                      kMarked)
                  .examples,
              ElementsAre(example_of("Uq;A;Aa;A[[b]];")));
}

}  // namespace
}  // namespace sluice
