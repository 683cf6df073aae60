// SPDX-License-Identifier: Apache-2.0
// A tokenizer from the folder of a model: which files there are, and what tokenizer_config.json adds to them.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hub_id.h"
#include "base/regular_file.h"
#include "text/folder_tokens.h"
#include "text/gpt2_files.h"
#include "text/tokenizer.h"
#include "text/tokenizer_file.h"
#include "text/tokenizer_parts.h"

namespace sluice {
namespace {

constexpr const char* kTokenizerJson = "tokenizer.json";
constexpr const char* kTokenizerModel = "tokenizer.model";

void set_side(const JsonView& config, std::string_view key, std::optional<TokenId> token, std::vector<TokenId>& side) {
  const auto wish = config.find(key);
  if (!wish) return;
  side.clear();
  if (!wish->boolean()) return;
  if (!token) wish->fail("asks for a token that neither this file nor the vocabulary names");
  side.push_back(*token);
}

void frame_text(const JsonView& config, TokenizerParts& parts) {
  set_side(config, "add_bos_token", parts.named.bos, parts.frame.before);
  set_side(config, "add_eos_token", parts.named.eos, parts.frame.behind);
}

}  // namespace

std::unique_ptr<const Tokenizer> parse_tokenizer(std::string_view json, const std::string& where) {
  const nlohmann::json document = parse_tokenizer_file(json, where);
  return std::make_unique<const Tokenizer>(parse_tokenizer_parts(JsonView(document, where)));
}

std::optional<std::string> find_tokenizer_file(const std::string& model_dir) {
  const std::filesystem::path folder(model_dir);
  for (const char* const name : {kTokenizerJson, kTokenizerModel}) {
    if (is_regular_file((folder / name).string())) return name;
  }
  return has_gpt2_files(folder) ? std::optional<std::string>("vocab.json") : std::nullopt;
}

std::unique_ptr<const Tokenizer> load_tokenizer(const std::string& model_dir) {
  const std::filesystem::path folder(model_dir);
  require_model_directory(model_dir);
  const std::optional<std::string> file = find_tokenizer_file(model_dir);
  if (!file) {
    throw InvalidInput(
        fmt::format("{} has neither tokenizer.json nor tokenizer.model, nor vocab.json and merges.txt; download the "
                    "model's tokenizer files into it",
                    model_dir));
  }
  const std::string path = (folder / *file).string();
  FolderTokens tokens(folder);
  std::unique_ptr<TokenizerParts> parts;
  bool has_frame = false;  // a tokenizer.json says what stands around a text
  if (*file == kTokenizerJson) {
    const nlohmann::json document = parse_tokenizer_file(read_tokenizer_file(path), path);
    parts = parse_tokenizer_parts(JsonView(document, path));
    has_frame = true;
  } else if (*file == kTokenizerModel) {
    const bool is_legacy = tokens.config() && tokens.config()->boolean_or("legacy", false);
    parts = make_sentence_piece_parts(read_tokenizer_file(path), path,
                                      is_legacy ? SentencePrefix::kEach : SentencePrefix::kFirst);
  } else {
    parts = make_gpt2_parts(folder, tokens.config());
    for (const char* const role : {"bos_token", "eos_token", "unk_token"}) tokens.set_default(role, kGpt2EndOfText);
  }
  tokens.apply_to(*parts);
  if (tokens.config() && !has_frame) frame_text(*tokens.config(), *parts);
  return std::make_unique<const Tokenizer>(std::move(parts));
}

}  // namespace sluice
