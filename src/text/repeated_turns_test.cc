// SPDX-License-Identifier: Apache-2.0
#include "text/repeated_turns.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "text/assistant_spans.h"
#include "text/chat_template.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLoopChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// In the style of Llama 2: no generation prompt, the system message inside the first user turn, trimmed contents.
constexpr const char* kInstructions =
    "{% set system = messages[0].content if messages[0].role == 'system' else '' %}{% for m in messages %}"
    "{% if m.role == 'user' %}<s>[INST] {{ system if loop.first or loop.index0 == 1 else '' }}{{ m.content | trim }} "
    "[/INST]{% elif m.role == 'assistant' %} {{ m.content | trim }} </s>{% endif %}{% endfor %}";

// Each turn's end token is written with the next turn.
constexpr const char* kLateEnds =
    "{% for m in messages %}{% if not loop.first %}<end>\n{% endif %}{{ m.role }}: {{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<end>\nassistant: {% endif %}";

// Thoughts are kept after the last user message only; a first loop scans all messages.
constexpr const char* kForgetsThoughts =
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}{% for m in messages %}<{{ m.role }}>{% if loop.index0 < ns.last %}"
    "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

// The number of blanks after a turn depends on its index.
constexpr const char* kUnevenEnds =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{{ '\n\n\n' if loop.index0 % 6 < 3 else '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

// Loops over indices instead of the messages.
constexpr const char* kByNumbers =
    "{% for i in range(messages | length) %}<{{ messages[i].role }}>{{ messages[i].content }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

JinjaOutput render(const JinjaTemplate& source, const Json& messages, GenerationPromptWish wish) {
  return source.render({{"messages", messages}, {"add_generation_prompt", wish == GenerationPromptWish::kAdd}}, 0, {},
                       "messages");
}

Json long_conversation(std::uint64_t seed) {
  constexpr const char* kWords[] = {"alpha", " ", "<end>", "assistant", "\n", "é", "", ":", "</s>", "[/INST]", "x"};
  Random random(seed);
  const auto words = [&] {
    std::string text;
    for (std::uint64_t i = random.below(6); i > 0; --i) text += kWords[random.below(std::size(kWords))];
    return text;
  };
  Json messages = Json::array();
  if (random.below(2) == 0) messages.push_back({{"role", "system"}, {"content", words()}});
  for (int turn = 0; turn < 20; ++turn) {
    messages.push_back({{"role", "user"}, {"content", words() + "q"}});
    const bool thinks = random.below(3) == 0;
    messages.push_back(
        {{"role", "assistant"}, {"content", (thinks ? "<think>" + words() + "</think>" : "") + words()}});
    if (random.below(4) == 0) {
      messages.push_back({{"role", "tool"}, {"content", words()}});
      messages.push_back({{"role", "assistant"}, {"content", words() + "a"}});
    }
  }
  if (random.below(2) == 0) messages.push_back({{"role", "user"}, {"content", words()}});
  return messages;
}

std::vector<std::pair<std::size_t, TextSpan>> spans_of(const JinjaTemplate& source, const Json& messages,
                                                       const SpanSearch& search) {
  const auto renderer = [&](const Json& variation, GenerationPromptWish wish) {
    return render(source, variation, wish);
  };
  std::vector<std::pair<std::size_t, TextSpan>> spans;
  for (const AssistantSpan& span : find_assistant_spans(messages, render(source, messages, GenerationPromptWish::kNone),
                                                        GenerationPromptWish::kNone, renderer, search)) {
    spans.emplace_back(span.message, span.text);
  }
  return spans;
}

TEST(RepeatedTurns, SpansOfLongConversationsAreThoseFoundInTheWhole) {
  for (const char* const text : {kLoopChatMl, kInstructions, kLateEnds, kForgetsThoughts, kUnevenEnds, kByNumbers}) {
    const JinjaTemplate source(text, "t");
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const Json messages = long_conversation(seed);
      EXPECT_EQ(spans_of(source, messages, {.max_messages_at_once = 0}),
                spans_of(source, messages, {.max_messages_at_once = 1000}))
          << text << seed;
    }
  }
}

// The number of cancellation polls, a measure of the steps that the renderings take.
std::uint64_t num_polls(const char* text, std::size_t num_messages) {
  std::map<std::string, JinjaTemplate> templates;
  templates.try_emplace("default", text, "t");
  const ChatTemplate chat_template(std::move(templates), Json::object());
  Json messages = Json::array();
  for (std::size_t i = 0; i < num_messages; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", "words " + std::to_string(i)}});
  }
  std::uint64_t polls = 0;
  RenderOptions options;
  options.limits.interrupted = [&] {
    ++polls;
    return false;
  };
  EXPECT_EQ(chat_template.render(messages, options).assistant.size(), num_messages / 2);
  return polls;
}

TEST(RepeatedTurns, TwiceTheMessagesTakeTwiceTheSteps) {
  for (const char* const text : {kLoopChatMl, kInstructions, kLateEnds, kForgetsThoughts}) {
    const std::uint64_t polls = num_polls(text, 4000);
    EXPECT_GT(polls, 2U);
    EXPECT_LT(polls, 60U);  // eight renderings per answer would take some 30,000
    EXPECT_LT(num_polls(text, 8000), 3 * polls) << text;
  }
}

TEST(RepeatedTurns, ARenderingIsGivenUpWhereTheUserAsksForThat) {
  std::map<std::string, JinjaTemplate> templates;
  templates.try_emplace("default", "{% for i in range(100000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}",
                        "t");
  const ChatTemplate chat_template(std::move(templates), Json::object());
  int polls = 0;
  RenderOptions options;
  options.limits.max_steps = UINT64_MAX;
  options.limits.interrupted = [&] { return ++polls == 3; };
  EXPECT_THROW(chat_template.render(Json::array({{{"role", "user"}, {"content", "q"}}}), options), Cancelled);
  EXPECT_EQ(polls, 3);
}

TEST(RepeatedTurns, MarkedSpansTellWhoseTheyAre) {
  std::map<std::string, JinjaTemplate> templates;
  templates.try_emplace("default",
                        "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
                        "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
                        "t");
  const ChatTemplate chat_template(std::move(templates), Json::object());
  const Json messages = {{{"role", "user"}, {"content", "q"}},
                         {{"role", "assistant"}, {"content", ""}},
                         {{"role", "assistant"}, {"content", "a"}}};
  EXPECT_THAT(chat_template.render(messages, {}).assistant_messages, testing::ElementsAre(2U));
}

}  // namespace
}  // namespace sluice
