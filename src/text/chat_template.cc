// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "text/assistant_spans.h"

namespace sluice {
namespace {

constexpr std::string_view kMessages = "messages";

void check_messages(const nlohmann::ordered_json& messages) {
  if (!messages.is_array()) throw InvalidInput("the messages must be a JSON array of objects with a role");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object() || !messages[i].contains("role")) {
      throw InvalidInput(fmt::format("message {} must be a JSON object with a role and a content", i));
    }
  }
}

}  // namespace

ChatTemplate::ChatTemplate(std::map<std::string, JinjaTemplate> templates, nlohmann::ordered_json variables)
    : templates_(std::move(templates)), variables_(std::move(variables)) {}

const JinjaTemplate& ChatTemplate::choose(const RenderOptions& options) const {
  std::string name = options.template_name;
  if (name.empty()) name = !options.tools.is_null() && templates_.contains("tool_use") ? "tool_use" : "default";
  const auto found = templates_.find(name);
  if (found != templates_.end()) return found->second;
  std::string names;
  for (const auto& item : templates_) names += (names.empty() ? "" : ", ") + item.first;
  throw InvalidInput(fmt::format("the model has no chat template called {}; it has: {}", name, names));
}

JinjaOutput ChatTemplate::run(const nlohmann::ordered_json& messages, const RenderOptions& options,
                              std::string_view watched) const {
  nlohmann::ordered_json variables = variables_;
  variables.update(options.variables);
  variables["messages"] = messages;
  variables["tools"] = options.tools;
  variables["documents"] = options.documents;
  variables["add_generation_prompt"] = options.generation_prompt == RenderOptions::GenerationPrompt::kAdd;
  return choose(options).render(variables, options.unix_time_s, options.limits, watched);
}

std::string ChatTemplate::render_text(const nlohmann::ordered_json& messages, const RenderOptions& options) const {
  check_messages(messages);
  return run(messages, options).text;
}

RenderedChat ChatTemplate::render(const nlohmann::ordered_json& messages, const RenderOptions& options) const {
  check_messages(messages);
  JinjaOutput output = run(messages, options, kMessages);
  std::vector<AssistantSpan> spans;
  if (choose(options).has_generation() && !output.lost_generation) {
    spans = marked_assistant_spans(messages, output);
  } else {
    const auto render_variation = [&](const nlohmann::ordered_json& variation, GenerationPromptWish wish) {
      RenderOptions changed = options;
      changed.generation_prompt = wish == GenerationPromptWish::kAdd ? RenderOptions::GenerationPrompt::kAdd
                                                                     : RenderOptions::GenerationPrompt::kNone;
      return run(variation, changed, kMessages);
    };
    const GenerationPromptWish wish = options.generation_prompt == RenderOptions::GenerationPrompt::kAdd
                                          ? GenerationPromptWish::kAdd
                                          : GenerationPromptWish::kNone;
    spans = find_assistant_spans(messages, output, wish, render_variation);
  }
  RenderedChat chat{.text = std::move(output.text), .assistant = {}, .assistant_messages = {}};
  for (const AssistantSpan& span : spans) {
    chat.assistant.push_back(span.text);
    chat.assistant_messages.push_back(span.message);
  }
  return chat;
}

}  // namespace sluice
