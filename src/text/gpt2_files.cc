// SPDX-License-Identifier: Apache-2.0
#include "text/gpt2_files.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/tokenizer_file.h"

namespace sluice {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";  // in every role that the config does not give to another

nlohmann::json read_gpt2_config(const std::filesystem::path& folder) {
  const std::string path = (folder / "tokenizer_config.json").string();
  return std::filesystem::exists(path) ? parse_tokenizer_file(read_tokenizer_file(path), path)
                                       : nlohmann::json::object();
}

void require_gpt2(const nlohmann::json& config, const std::filesystem::path& folder) {
  if (!config.is_object() || !config.contains("tokenizer_class")) return;
  const nlohmann::json& name = config.at("tokenizer_class");
  if (name == "GPT2Tokenizer" || name == "GPT2TokenizerFast") return;
  throw InvalidInput(fmt::format(
      "{} has vocab.json and merges.txt for the tokenizer class {}; without tokenizer.json Sluice reads those "
      "of GPT2Tokenizer",
      folder.string(), name.dump()));
}

nlohmann::json read_merge_lines(const std::string& path) {
  const std::string text = read_tokenizer_file(path);
  nlohmann::json merges = nlohmann::json::array();
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) merges.push_back(std::string(line));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return merges;
}

// The tokens of the roles, as tokenizer.json would list them; `vocab` has them or is continued by them.
nlohmann::json gpt2_special_tokens(const nlohmann::json& config, const nlohmann::json& vocab) {
  nlohmann::json tokens = nlohmann::json::array();
  const auto add = [&](const nlohmann::json& role) {
    nlohmann::json token = role.is_object() ? role : nlohmann::json{{"content", role}, {"normalized", false}};
    if (!token.contains("content") || !token.at("content").is_string()) return;
    for (const nlohmann::json& known : tokens) {
      if (known.at("content") == token.at("content")) return;
    }
    token["special"] = true;
    token.erase("id");
    tokens.push_back(std::move(token));
  };
  for (const char* role : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    if (config.is_object() && config.contains(role)) add(config.at(role));
  }
  if (vocab.contains(kEndOfText)) add(kEndOfText);
  return tokens;
}

}  // namespace

bool has_gpt2_files(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "vocab.json") && std::filesystem::exists(folder / "merges.txt");
}

std::unique_ptr<TokenizerParts> make_gpt2_parts(const std::filesystem::path& folder) {
  const nlohmann::json config = read_gpt2_config(folder);
  require_gpt2(config, folder);
  const std::string vocab_path = (folder / "vocab.json").string();
  const nlohmann::json vocab = parse_tokenizer_file(read_tokenizer_file(vocab_path), vocab_path);
  const bool has_prefix = config.is_object() && config.value("add_prefix_space", nlohmann::json(false)) == true;
  const nlohmann::json document{
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", read_merge_lines((folder / "merges.txt").string())}}},
      {"added_tokens", gpt2_special_tokens(config, vocab)},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", has_prefix}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}}};
  std::unique_ptr<TokenizerParts> parts = parse_tokenizer_parts(JsonView(document, vocab_path));
  if (const auto end_of_text = parts->id_of(kEndOfText)) {
    parts->named = {.bos = end_of_text, .eos = end_of_text, .unk = end_of_text};
  }
  return parts;
}

}  // namespace sluice
