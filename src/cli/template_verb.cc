// SPDX-License-Identifier: Apache-2.0
#include "cli/template_verb.h"

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/model_option.h"
#include "cli/read_stream.h"
#include "cli/terminal.h"
#include "text/chat_template.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct TemplateArguments {
  std::string model;
  std::string messages = "-";
  std::string tools;
  std::string name;
  std::vector<std::string> settings;
  bool add_generation_prompt = false;
  bool show_mask = false;
  bool json = false;
};

// Conversations are a few levels deep; what copies JSON does so by recursion.
constexpr int kMaxJsonDepth = 200;

Json parse(const std::string& text, const std::string& where) {
  try {
    return Json::parse(text, [&](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxJsonDepth) {
        throw InvalidInput(fmt::format("{} nests values more than {} deep; a conversation is a list of messages", where,
                                       kMaxJsonDepth));
      }
      return true;
    });
  } catch (const Json::parse_error& error) {
    throw InvalidInput(fmt::format("{} is not JSON: it goes wrong at byte {} of {}", where, error.byte, text.size()));
  } catch (const Json::out_of_range&) {
    throw InvalidInput(fmt::format("{} has a number that is too large for any number type", where));
  }
}

Json read_json(const std::string& path) {
  if (path == "-") {
    return parse(read_stream(std::cin, "standard input"), "standard input");
  }
  if (std::filesystem::is_directory(path))
    throw InvalidInput(fmt::format("'{}' is a directory; name a file in it", path));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(errno, fmt::format("cannot read '{}': {}; check the path", path, errno_text(errno)));
  return parse(read_stream(file, path), path);
}

void add_setting(Json& variables, const std::string& setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InvalidInput(
        fmt::format("--set needs a name and a JSON value, as in enable_thinking=false, got {}", setting));
  }
  variables[setting.substr(0, equals)] = parse(setting.substr(equals + 1), "the value of --set " + setting);
}

void print_masked(const RenderedChat& chat) {
  const bool colour = wants_colour(stdout);
  const std::string_view open = colour ? "\033[32m" : "⟦";
  const std::string_view close = colour ? "\033[0m" : "⟧";
  std::string out;
  std::size_t at = 0;
  for (const TextSpan& span : chat.assistant) {
    out += chat.text.substr(at, span.begin - at);
    out += open;
    out += chat.text.substr(span.begin, span.end - span.begin);
    out += close;
    at = span.end;
  }
  fmt::print("{}{}\n", out, chat.text.substr(at));
}

void print_json(const RenderedChat& chat) {
  Json json{{"text", chat.text}, {"assistant_spans", Json::array()}};
  for (const TextSpan& span : chat.assistant) json["assistant_spans"].push_back(Json::array({span.begin, span.end}));
  fmt::print("{}\n", json.dump());
}

void show_template(const TemplateArguments& arguments) {
  const ChatTemplate chat_template = ChatTemplate::load(arguments.model);
  RenderOptions options;
  options.unix_time_s = std::time(nullptr);
  options.template_name = arguments.name;
  if (arguments.add_generation_prompt) options.generation_prompt = RenderOptions::GenerationPrompt::kAdd;
  for (const std::string& setting : arguments.settings) add_setting(options.variables, setting);
  Json messages = read_json(arguments.messages);
  if (messages.is_object()) {
    if (messages.contains("tools")) options.tools = messages["tools"];
    if (messages.contains("documents")) options.documents = messages["documents"];
    if (!messages.contains("messages"))
      throw InvalidInput(
          "the JSON object has no messages; give an array of messages, or an object with the key messages");
    const Json inner = messages["messages"];
    messages = inner;
  }
  if (!arguments.tools.empty()) options.tools = read_json(arguments.tools);
  if (arguments.json) {
    print_json(chat_template.render(messages, options));
  } else if (arguments.show_mask) {
    print_masked(chat_template.render(messages, options));
  } else {
    fmt::print("{}\n", chat_template.render_text(messages, options));
  }
}

}  // namespace

void add_template_verb(CLI::App& app) {
  const auto arguments = std::make_shared<TemplateArguments>();
  CLI::App* const verb = app.add_subcommand("template", "Render a conversation with a model's chat template");
  add_model_option(*verb, arguments->model)->required();
  verb->add_option("--messages", arguments->messages,
                   "JSON file with an array of messages, or an object with messages and tools; - is standard input")
      ->capture_default_str();
  verb->add_option("--tools", arguments->tools, "JSON file with an array of tools");
  verb->add_option("--name", arguments->name, "Which template, where the model has several");
  verb->add_option("--set", arguments->settings, "A variable for the template, as in enable_thinking=false")
      ->expected(1)
      ->take_all();
  verb->add_flag("--add-generation-prompt", arguments->add_generation_prompt, "End where the assistant would go on");
  verb->add_flag("--show-mask", arguments->show_mask, "Mark what the assistant wrote");
  verb->add_flag("--json", arguments->json, "Print one JSON object: the text and the assistant's byte ranges");
  verb->callback([arguments] { show_template(*arguments); });
}

}  // namespace sluice
