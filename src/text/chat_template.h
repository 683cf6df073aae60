// SPDX-License-Identifier: Apache-2.0
// A model's chat template: conversations to the text the model was trained on, and which of it the assistant wrote.
// Immutable once made; threads may share it. Knows nothing of tokens.
//
// A span of the assistant starts where the generation prompt ends and includes the token that ends the turn; blanks
// behind that token, which the next turn's text begins with, are not part of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/jinja_template.h"

namespace sluice {

struct RenderOptions {
  enum class GenerationPrompt { kNone, kAdd };
  GenerationPrompt generation_prompt = GenerationPrompt::kNone;
  nlohmann::ordered_json tools;                                         // null, or an array
  nlohmann::ordered_json documents;                                     // null, or an array
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // enable_thinking and the like
  std::string template_name;     // of several; by default "tool_use" where there are tools, else "default"
  std::int64_t unix_time_s = 0;  // the present, for templates that write the date
  JinjaLimits limits;
};

struct RenderedChat {
  std::string text;
  std::vector<TextSpan> assistant;              // in order, disjoint
  std::vector<std::size_t> assistant_messages;  // message index of each span; kUnknownMessage: not determined

  static constexpr std::size_t kUnknownMessage = static_cast<std::size_t>(-1);
};

class ChatTemplate {
 public:
  // By name; the one that is used without a wish is called "default". `variables` are the special tokens
  // (bos_token...).
  ChatTemplate(std::map<std::string, JinjaTemplate> templates, nlohmann::ordered_json variables);
  // Finds chat_template.jinja (and additional_chat_templates/), chat_template.json or tokenizer_config.json, and takes
  // the special tokens from the latter. Throws InvalidInput where there is no template.
  static ChatTemplate load(const std::string& model_directory);
  // The template `source`, which replaces the folder's own, with the folder's special tokens; `where` names it in
  // errors.
  static ChatTemplate of_text(const std::string& source, const std::string& where, const std::string& model_directory);

  // Whether the source of the template that these options choose contains the text.
  bool mentions(std::string_view text, const RenderOptions& options) const { return choose(options).mentions(text); }
  // Throws InvalidInput where every template has to be asked for by its name.
  void require_default() const { choose({}); }
  std::string render_text(const nlohmann::ordered_json& messages, const RenderOptions& options) const;
  // The text and the assistant's spans: those of {% generation %} blocks, or found by rendering variations of the
  // conversation, in linear time for templates that loop over the messages. Throws FormatError if they cannot be
  // determined.
  RenderedChat render(const nlohmann::ordered_json& messages, const RenderOptions& options) const;

 private:
  const JinjaTemplate& choose(const RenderOptions& options) const;
  JinjaOutput run(const nlohmann::ordered_json& messages, const RenderOptions& options,
                  std::string_view watched = {}) const;

  std::map<std::string, JinjaTemplate> templates_;
  nlohmann::ordered_json variables_;
};

struct ChatTemplateText {
  std::string name;
  std::string file;  // in the folder
  std::string text;
};
// The template called "default", as it is written, or else the first by name; nothing where the folder has none.
std::optional<ChatTemplateText> find_chat_template(const std::string& model_directory);

}  // namespace sluice
