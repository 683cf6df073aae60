// SPDX-License-Identifier: Apache-2.0
// Where a model's folder keeps its chat template.
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hub_id.h"
#include "base/regular_file.h"
#include "text/chat_template.h"
#include "text/folder_tokens.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Templates have some kilobytes; tokenizer_config.json lists added tokens, a megabyte in the longest.
constexpr std::uintmax_t kMaxTemplateBytes = std::uintmax_t{16} << 20;

constexpr const char* kTemplateName = "chat_template.jinja";
constexpr const char* kNamedTemplates = "additional_chat_templates";

std::optional<std::string> read_if_there(const std::filesystem::path& path) {
  std::error_code failure;
  require_regular_file(path.string());
  if (!std::filesystem::exists(path, failure)) return std::nullopt;
  const std::uintmax_t size_bytes = std::filesystem::file_size(path, failure);
  if (!failure && size_bytes > kMaxTemplateBytes) {
    throw FormatError(fmt::format("{} is {} bytes long, too long for what it should hold", path.string(), size_bytes));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(errno, fmt::format("cannot read {}: {}", path.string(), errno_text(errno)));
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::optional<Json> read_json_if_there(const std::filesystem::path& path) {
  const std::optional<std::string> text = read_if_there(path);
  if (!text) return std::nullopt;
  try {
    Json json = Json::parse(*text);
    if (!json.is_object()) throw FormatError(fmt::format("{} is no JSON object", path.string()));
    return json;
  } catch (const Json::parse_error& error) {
    throw FormatError(fmt::format("{} is not JSON: it goes wrong at byte {}", path.string(), error.byte));
  } catch (const Json::out_of_range&) {
    throw FormatError(fmt::format("{} has a number that is too large for any number type", path.string()));
  }
}

struct TemplateSource {
  std::string text;
  std::string where;
  std::string file;  // in the folder
};
using TemplateSources = std::map<std::string, TemplateSource>;  // by name

// A string, or a list of objects with a name and a template.
void add_templates(TemplateSources& templates, const Json& json, const std::filesystem::path& path) {
  const std::string where = path.string();
  const std::string file = path.filename().string();
  if (json.is_string()) {
    templates.insert({"default", {json.get<std::string>(), "the chat template in " + where, file}});
    return;
  }
  const auto fail = [&] {
    throw FormatError(fmt::format("{}: chat_template must be a string or a list of named templates", where));
  };
  if (!json.is_array()) fail();
  for (const Json& item : json) {
    if (!item.is_object() || !item.contains("name") || !item.contains("template")) fail();
    if (!item["name"].is_string() || !item["template"].is_string()) fail();
    const auto name = item["name"].get<std::string>();
    templates.insert(
        {name, {item["template"].get<std::string>(), fmt::format("the chat template {} in {}", name, where), file}});
  }
}

Json special_tokens(const std::filesystem::path& directory) {
  Json tokens = Json::object();
  for (const auto& [role, content] : FolderTokens(directory).named()) tokens[role] = content;
  return tokens;
}

TemplateSources find_templates(const std::filesystem::path& directory, const Json& config) {
  TemplateSources templates;
  std::error_code failure;
  if (auto text = read_if_there(directory / kTemplateName)) {
    templates.insert({"default", {std::move(*text), (directory / kTemplateName).string(), kTemplateName}});
  }
  const std::filesystem::path named = directory / kNamedTemplates;
  std::filesystem::directory_iterator entry(named, failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    const std::filesystem::path& path = entry->path();
    if (path.extension() != ".jinja") continue;
    if (auto text = read_if_there(path)) {
      const std::filesystem::path file = std::filesystem::path(kNamedTemplates) / path.filename();
      templates.insert({path.stem().string(), {std::move(*text), path.string(), file.string()}});
    }
  }
  if (failure && failure != std::errc::no_such_file_or_directory && failure != std::errc::not_a_directory) {
    throw IoError(failure.value(), fmt::format("cannot list {}: {}", named.string(), failure.message()));
  }
  if (templates.empty()) {
    const std::filesystem::path path = directory / "chat_template.json";
    const std::optional<Json> json = read_json_if_there(path);
    if (json && json->contains("chat_template")) add_templates(templates, (*json)["chat_template"], path);
  }
  if (templates.empty() && config.contains("chat_template") && !config["chat_template"].is_null()) {
    add_templates(templates, config["chat_template"], directory / "tokenizer_config.json");
  }
  return templates;
}

Json read_tokenizer_config(const std::filesystem::path& directory) {
  return read_json_if_there(directory / "tokenizer_config.json").value_or(Json::object());
}

}  // namespace

std::optional<ChatTemplateText> find_chat_template(const std::string& model_directory) {
  const std::filesystem::path directory(model_directory);
  const TemplateSources templates = find_templates(directory, read_tokenizer_config(directory));
  if (templates.empty()) return std::nullopt;
  const auto found = templates.find("default");
  const auto& [name, source] = *(found == templates.end() ? templates.begin() : found);
  return ChatTemplateText{.name = name, .file = source.file, .text = source.text};
}

ChatTemplate ChatTemplate::load(const std::string& model_directory) {
  const std::filesystem::path directory(model_directory);
  require_model_directory(model_directory);
  const Json config = read_tokenizer_config(directory);
  std::map<std::string, JinjaTemplate> templates;
  for (const auto& [name, source] : find_templates(directory, config)) {
    templates.try_emplace(name, source.text, source.where);
  }
  if (templates.empty()) {
    throw InvalidInput(
        fmt::format("{} holds no chat template: neither chat_template.jinja nor chat_template.json, and "
                    "none in tokenizer_config.json; is the model a base model?",
                    model_directory));
  }
  return ChatTemplate(std::move(templates), special_tokens(directory));
}

ChatTemplate ChatTemplate::of_text(const std::string& source, const std::string& where,
                                   const std::string& model_directory) {
  std::map<std::string, JinjaTemplate> templates;
  templates.try_emplace("default", source, where);
  return ChatTemplate(std::move(templates), special_tokens(model_directory));
}

}  // namespace sluice
