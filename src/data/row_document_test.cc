// SPDX-License-Identifier: Apache-2.0
#include "data/row_document.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/row_problem.h"

namespace sluice {
namespace {

using testing::HasSubstr;

Document document(const std::string& json) {
  const Row row{.value = RowJson::parse(json)};
  return document_of_row(detect_schema(row.value), row);
}

// "key: what" of the refusal.
std::string refusal(const std::string& json) {
  try {
    document(json);
  } catch (const BadRow& bad) {
    return bad.key() + ": " + bad.what();
  }
  return "it was taken";
}

TEST(RowDocument, MessagesReachTheTemplateAsTheyAre) {
  const Document made = document(
      R"({"messages": [{"role": "user", "content": "q", "name": "x"}, {"role": "assistant", "content": null,
          "tool_calls": [{"id": "1"}]}], "tools": [{"type": "function"}]})");
  EXPECT_EQ(made.chat.list.dump(), R"([{"role":"user","content":"q","name":"x"},)"
                                   R"({"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}])");
  EXPECT_EQ(made.tools.dump(), R"([{"type":"function"}])");
  EXPECT_EQ(document(R"({"messages": "[{\"role\": \"user\", \"content\": \"q\"}]"})").chat.list.dump(),
            R"([{"role":"user","content":"q"}])");
}

TEST(RowDocument, SpeakersOfShareGptGetTheirRoles) {
  const Document made = document(
      R"({"system": "s", "conversations": [{"from": "human", "value": "q"},
          {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
          {"from": "observation", "value": "r"}, {"from": "gpt", "value": "a"}]})");
  EXPECT_EQ(made.chat.list.dump(),
            R"([{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"",)"
            R"("tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1}}}]},)"
            R"({"role":"tool","content":"r"},{"role":"assistant","content":"a"}])");
}

TEST(RowDocument, AlpacaIsAConversationAndItsOwnPrompt) {
  const Document made =
      document(R"({"instruction": "Add.", "input": "1 2", "output": "3", "system": "", "history": [["Hi", "Ho"]]})");
  EXPECT_EQ(made.chat.list.dump(), R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"},)"
                                   R"({"role":"user","content":"Add.\n1 2"},{"role":"assistant","content":"3"}])");
  EXPECT_EQ(document(R"({"instruction": "Add.", "input": "1 2", "output": "3"})").raw->prompt,
            "Below is an instruction that describes a task, paired with an input that provides further context. Write "
            "a response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 2\n\n"
            "### Response:\n");
  EXPECT_EQ(document(R"({"instruction": "Add.", "output": "3"})").raw->prompt,
            "Below is an instruction that describes a task. Write a response that appropriately completes the request."
            "\n\n### Instruction:\nAdd.\n\n### Response:\n");
}

TEST(RowDocument, PromptsAreTextOrMessages) {
  const Document raw = document(R"({"prompt": "p", "completion": "c"})");
  EXPECT_TRUE(raw.chat.list.is_null());
  EXPECT_EQ(raw.raw->prompt + "|" + raw.raw->completion, "p|c");
  const Document chat = document(
      R"({"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
          {"role": "user", "content": "r"}], "completion": [{"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(chat.chat.list.size(), 4U);
  EXPECT_EQ(chat.num_learned_messages, 1U);
  EXPECT_EQ(document(R"({"question": "q", "answer": "a"})").chat.list.dump(),
            R"([{"role":"user","content":"q"},{"role":"assistant","content":"a"}])");
}

TEST(RowDocument, RefusalsNameTheKeyAndWhatToDo) {
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": "q"}, {"role": "asistant", "content": "a"}]})"),
              HasSubstr("messages[1].role: there is no role \"asistant\"; use system, user"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user"}]})"), HasSubstr("messages[0].content: the content is missing"));
  EXPECT_THAT(refusal(R"({"messages": []})"), HasSubstr("messages: the conversation is empty"));
  EXPECT_THAT(refusal(R"({"messages": {"role": "user"}})"), HasSubstr("messages: wanted a list, found an object"));
  EXPECT_THAT(refusal(R"({"messages": ["q"]})"), HasSubstr("messages[0]: wanted an object"));
  EXPECT_THAT(refusal(R"({"conversations": [{"from": "me", "value": "q"}]})"),
              HasSubstr("conversations[0].from: nobody"));
  EXPECT_THAT(refusal(R"({"conversations": [{"from": "gpt"}]})"),
              HasSubstr("conversations[0].value: the key is missing"));
  EXPECT_THAT(refusal(R"({"conversations": [{"from": "function_call", "value": "call f"}]})"),
              HasSubstr("conversations[0].value: not JSON"));
  EXPECT_THAT(refusal(R"({"instruction": "i", "output": 3})"), HasSubstr("output: wanted a string, found 3"));
  EXPECT_THAT(refusal(R"({"instruction": "i", "output": "o", "history": [["x"]]})"), HasSubstr("history[0]: wanted"));
  EXPECT_THAT(refusal(R"({"prompt": "p", "completion": [1]})"),
              HasSubstr("completion: prompt and completion must both"));
  EXPECT_THAT(refusal(R"({"inputs": 1, "targets": 2})"), HasSubstr("found inputs, targets"));
  EXPECT_THAT(refusal(R"({"prompt": "p", "chosen": "c", "rejected": "r"})"), HasSubstr("preference pair"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("a row must be a JSON object"));
}

TEST(RowDocument, RowsThatAreNoExamplesToImitateAreRefused) {
  constexpr const char* kTalk =
      R"("messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])";
  const auto with = [&](const std::string& more) { return std::string("{") + kTalk + ", " + more + "}"; };
  EXPECT_THAT(refusal(with(R"("label": false)")), HasSubstr("label: the row's answer is marked as a bad one"));
  EXPECT_THAT(refusal(with(R"("kto_tag": "False")")), HasSubstr("kto_tag: the row's answer is marked"));
  EXPECT_THAT(refusal(R"({"prompt": "p", "completion": "c", "label": false})"), HasSubstr("label: "));
  EXPECT_THAT(refusal(with(R"("rejected_response": "b")")), HasSubstr("preference pair"));
  EXPECT_THAT(refusal(R"({"chosen_messages": [1], "rejected_messages": [2]})"), HasSubstr("preference pair"));
  EXPECT_THAT(refusal(with(R"("images": ["1.jpg"])")), HasSubstr("images: the row has images, which would be lost"));
  EXPECT_THAT(refusal(with(R"("videos": ["1.mp4"])")), HasSubstr("videos: "));
  EXPECT_THAT(refusal(with(R"("audios": ["1.mp3"])")), HasSubstr("audios: "));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": [{"type": "image_url", "value": "1.jpg"},
                          {"type": "text", "value": "q"}]}]})"),
              HasSubstr("messages[0].content[0]: the row has a part of type \"image_url\""));
  EXPECT_THAT(refusal(R"({"conversations": [{"from": "human", "value": "q", "image": "1.jpg"}]})"),
              HasSubstr("conversations[0].image: "));
  EXPECT_EQ(refusal(with(R"("images": [], "videos": null, "label": true)")), "it was taken");
}

TEST(RowDocument, WhatIsLeftOutIsTold) {
  const Document good =
      document(R"({"question": "q", "answer": "a", "label": true, "id": 7, "source": "", "tags": []})");
  EXPECT_THAT(good.leftovers.ignored_keys, testing::ElementsAre("id"));
  EXPECT_THAT(good.leftovers.notes, testing::ElementsAre(HasSubstr("label is true, a good answer")));
  EXPECT_THAT(document(R"({"conversations": [{"from": "gpt", "value": "a", "mood": "x"}]})").leftovers.notes,
              testing::ElementsAre(HasSubstr("the turns' key \"mood\" is not used")));
  // A number is a class label, not a KTO label.
  EXPECT_THAT(document(R"({"question": "q", "answer": "a", "label": 0})").leftovers.ignored_keys,
              testing::ElementsAre("label"));
}

TEST(RowDocument, OtherSpellingsAreThoseThatTemplatesTake) {
  const Document made = document(
      R"({"messages": [{"role": "human", "content": [{"type": "text", "value": "q"}], "loss_weight": 0.0},
          {"role": "assistant", "content": [{"type": "reasoning", "value": "t"},
            {"type": "tool_call", "value": "{\"name\": \"f\", \"arguments\": {}}"}]},
          {"role": "observation", "content": "r"},
          {"role": "assistant", "content": null, "function_call": {"name": "g", "arguments": "{}"}}],
          "tools": "[{\"name\": \"f\"}]", "system": "s", "chat_template_kwargs": {"enable_thinking": false}})");
  EXPECT_EQ(made.chat.list.dump(),
            R"([{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"q"}]},)"
            R"({"role":"assistant","content":"","reasoning_content":"t",)"
            R"("tool_calls":[{"type":"function","function":{"name":"f","arguments":{}}}]},)"
            R"({"role":"tool","content":"r"},{"role":"assistant","content":null,)"
            R"("tool_calls":[{"type":"function","function":{"name":"g","arguments":"{}"}}]}])");
  EXPECT_EQ(made.tools.dump(), R"([{"type":"function","function":{"name":"f"}}])");
  EXPECT_EQ(made.variables.dump(), R"({"enable_thinking":false})");
  EXPECT_EQ(made.chat.place_of(2, "content"), "messages[1].content");
  EXPECT_TRUE(document(R"({"conversations": [{"from": "gpt", "value": "a"}], "tools": "[]"})").tools.is_null());
}

TEST(RowSchema, NamesAreReadBack) {
  for (const RowSchema schema : {RowSchema::kMessages, RowSchema::kConversations, RowSchema::kInstruction,
                                 RowSchema::kPromptCompletion, RowSchema::kQuestionAnswer, RowSchema::kText}) {
    EXPECT_EQ(parse_schema_name(std::string(schema_name(schema))), schema);
  }
  EXPECT_THROW(parse_schema_name("alpaca2"), InvalidInput);
}

}  // namespace
}  // namespace sluice
