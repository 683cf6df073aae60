// SPDX-License-Identifier: Apache-2.0
#include "text/gpt2_files.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/regular_file.h"
#include "text/tokenizer_file.h"
#include "text/utf8.h"

namespace sluice {
namespace {

void require_gpt2(const JsonView& config, const std::filesystem::path& folder) {
  const std::string name = config.string_or("tokenizer_class", "GPT2Tokenizer");
  if (name == "GPT2Tokenizer" || name == "GPT2TokenizerFast") return;
  throw InvalidInput(fmt::format(
      "{} has vocab.json and merges.txt for the tokenizer class {}; without tokenizer.json Sluice reads those "
      "of GPT2Tokenizer",
      folder.string(), excerpt(name)));
}

nlohmann::json read_merge_lines(const std::string& path) {
  const std::string text = read_tokenizer_file(path);
  nlohmann::json merges = nlohmann::json::array();
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!is_utf8(line)) throw FormatError(fmt::format("{}: a line is not UTF-8: '{}'", path, excerpt(line)));
    if (!line.empty()) merges.push_back(std::string(line));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return merges;
}

}  // namespace

bool has_gpt2_files(const std::filesystem::path& folder) {
  return is_regular_file((folder / "vocab.json").string()) && is_regular_file((folder / "merges.txt").string());
}

std::unique_ptr<TokenizerParts> make_gpt2_parts(const std::filesystem::path& folder,
                                                const std::optional<JsonView>& config) {
  if (config) require_gpt2(*config, folder);
  const std::string vocab_path = (folder / "vocab.json").string();
  nlohmann::json vocab = parse_tokenizer_file(read_tokenizer_file(vocab_path), vocab_path);
  const bool has_prefix = config && config->boolean_or("add_prefix_space", false);
  nlohmann::json document{
      {"model", {{"type", "BPE"}, {"merges", read_merge_lines((folder / "merges.txt").string())}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", has_prefix}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}}};
  document["model"]["vocab"] = std::move(vocab);  // a copy goes down as deep as the file is nested
  const std::string both = vocab_path + " with merges.txt";
  return parse_tokenizer_parts(JsonView(document, both));
}

}  // namespace sluice
