// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;

ChatTemplate make(const std::string& source) {
  std::map<std::string, JinjaTemplate> templates;
  templates.try_emplace("default", source, "t");
  return ChatTemplate(std::move(templates), {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
}

Json message(const std::string& role, const std::string& content) { return {{"role", role}, {"content", content}}; }

// What the assistant wrote, as text.
std::vector<std::string> words(const std::string& source, const Json& messages, const RenderOptions& options = {}) {
  const RenderedChat chat = make(source).render(messages, options);
  std::vector<std::string> parts;
  for (const TextSpan& span : chat.assistant) parts.push_back(chat.text.substr(span.begin, span.end - span.begin));
  return parts;
}

const Json& conversation() {
  static const Json kMessages = {message("user", "Hi"), message("assistant", "Hello é"), message("user", "Bye"),
                                 message("assistant", "Vhxq0zk")};
  return kMessages;
}

constexpr const char* kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

TEST(ChatTemplate, TheEndOfTurnIsTheAssistantsAndTheNewlineBehindItIsNot) {
  EXPECT_THAT(words(kChatMl, conversation()), ElementsAre("Hello é<|im_end|>", "Vhxq0zk<|im_end|>"));
}

TEST(ChatTemplate, WithoutAGenerationPromptTheSpanStartsBehindTheUsersTurn) {
  EXPECT_THAT(words("{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
                    "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}",
                    conversation()),
              ElementsAre(" Hello é </s>", " Vhxq0zk </s>"));
}

// Neither of the two is looked for letter by letter at every place.
TEST(ChatTemplate, ALongAndRegularPromptIsFound) {
  constexpr std::size_t kSize = 1'000'000;
  const std::string blanks = std::string(kSize, '-');
  const std::string source = "{{ '" + blanks + "' }}{% for m in messages %}{{ m.content }}{% endfor %}" +
                             "{% if add_generation_prompt %}{{ '" + blanks + "x' }}{% endif %}";
  EXPECT_THAT(words(source, Json::array({message("assistant", "Hello")})), ElementsAre("Hello"));
}

// Old thoughts are dropped, so no shorter conversation is a prefix of a longer one with tools in between.
constexpr const char* kForgetful =
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}{% for m in messages %}{{ '<' + m.role + '>' }}{% if m.role == 'assistant' %}"
    "{% set c = m.content %}{% if '</think>' in c %}{% if loop.index0 < ns.last %}{% set c = c.split('</think>')[-1] %}"
    "{% endif %}{% endif %}{{ c }}{% else %}{{ m.content }}{% endif %}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

TEST(ChatTemplate, TurnsWhoseThoughtsWereDroppedAreFound) {
  const Json messages = {message("user", "q"),  message("assistant", "<think>a</think>call"),
                         message("tool", "r"),  message("assistant", "<think>b</think>done"),
                         message("user", "q2"), message("assistant", "<think>c</think>last")};
  EXPECT_THAT(words(kForgetful, messages), ElementsAre("call<end>", "done<end>", "<think>c</think>last<end>"));
}

TEST(ChatTemplate, ThePromptMaySayMoreThanOldTurnsKeep) {
  const std::string source = std::string(kForgetful) + "{% if add_generation_prompt %}<nothink>{% endif %}";
  EXPECT_THAT(words(source, conversation()), ElementsAre("Hello é<end>", "Vhxq0zk<end>"));
}

TEST(ChatTemplate, GenerationBlocksHaveTheLastWord) {
  EXPECT_THAT(words("{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content }}"
                    "{% endgeneration %}.{% else %}U:{{ m.content }}{% endif %}{% endfor %}",
                    conversation()),
              ElementsAre("Hello é", "Vhxq0zk"));
}

TEST(ChatTemplate, ToolCallsAreTheAssistants) {
  const Json call = {{"role", "assistant"},
                     {"content", nullptr},
                     {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", Json::object()}}}}}}};
  EXPECT_THAT(words("{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% else %}"
                    "{{ m.content }}{% endif %}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
                    {message("user", "q"), call}),
              ElementsAre("[{\"function\": {\"name\": \"f\", \"arguments\": {}}}]<end>"));
}

TEST(ChatTemplate, SaysSoWhenTheWordsCannotBeTold) {
  // Sorted by content, a message has no place of its own.
  EXPECT_THROW(words("{% for m in messages | sort(attribute='content') %}{{ m.content }} {% endfor %}", conversation()),
               FormatError);
}

TEST(ChatTemplate, MessagesMustHaveRoles) {
  EXPECT_THROW(words(kChatMl, Json::array({Json::object()})), InvalidInput);
  EXPECT_THROW(words(kChatMl, "hello"), InvalidInput);
}

}  // namespace
}  // namespace sluice
