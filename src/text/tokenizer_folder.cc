// SPDX-License-Identifier: Apache-2.0
// A tokenizer from the folder of a model: which files there are, and what tokenizer_config.json adds to them.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/tokenizer_file.h"
#include "text/tokenizer_parts.h"

namespace sluice {
namespace {

// A token is a string, or an object with its content.
std::optional<TokenId> named_token(const JsonView& config, std::string_view key, const TokenizerParts& parts) {
  const auto entry = config.find(key);
  if (!entry) return std::nullopt;
  return parts.id_of(entry->value().is_object() ? entry->at("content").string() : entry->string());
}

// Classes that rebuild the frame around a text from these settings, whatever the file says.
bool rebuilds_frame(const JsonView& config) {
  static constexpr std::array<std::string_view, 4> kClasses{"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer",
                                                            "CohereTokenizer"};
  std::string name = config.string_or("tokenizer_class", "");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return std::find(kClasses.begin(), kClasses.end(), name) != kClasses.end();
}

void set_side(const JsonView& config, std::string_view key, std::optional<TokenId> token, std::vector<TokenId>& side) {
  const auto wish = config.find(key);
  if (!wish) return;
  side.clear();
  if (!wish->boolean()) return;
  if (!token) wish->fail("asks for a token that neither this file nor the vocabulary names");
  side.push_back(*token);
}

enum class Frame { kFromFile, kFromConfig };

void apply_config(const JsonView& config, Frame frame, TokenizerParts& parts) {
  const auto name = [&](std::string_view key, std::optional<TokenId>& token) {
    if (const auto id = named_token(config, key, parts)) token = id;
  };
  name("bos_token", parts.named.bos);
  name("eos_token", parts.named.eos);
  name("pad_token", parts.named.pad);
  name("unk_token", parts.named.unk);
  if (frame == Frame::kFromConfig || rebuilds_frame(config)) {
    set_side(config, "add_bos_token", parts.named.bos, parts.frame.before);
    set_side(config, "add_eos_token", parts.named.eos, parts.frame.behind);
  }
}

}  // namespace

std::unique_ptr<const Tokenizer> parse_tokenizer(std::string_view json, const std::string& where) {
  const nlohmann::json document = parse_tokenizer_file(json, where);
  return std::make_unique<const Tokenizer>(parse_tokenizer_parts(JsonView(document, where)));
}

std::unique_ptr<const Tokenizer> load_tokenizer(const std::string& model_dir) {
  namespace fs = std::filesystem;
  const fs::path folder(model_dir);
  if (!fs::is_directory(folder)) {
    throw InvalidInput(fmt::format("{} is not a directory; give the folder of a model", model_dir));
  }
  const std::string json_path = (folder / "tokenizer.json").string();
  const std::string model_path = (folder / "tokenizer.model").string();
  const std::string config_path = (folder / "tokenizer_config.json").string();
  std::unique_ptr<TokenizerParts> parts;
  Frame frame = Frame::kFromFile;
  if (fs::exists(json_path)) {
    const nlohmann::json document = parse_tokenizer_file(read_tokenizer_file(json_path), json_path);
    parts = parse_tokenizer_parts(JsonView(document, json_path));
  } else if (fs::exists(model_path)) {
    parts = make_sentence_piece_parts(read_tokenizer_file(model_path), model_path);
    frame = Frame::kFromConfig;
  } else {
    throw InvalidInput(
        fmt::format("{} has neither tokenizer.json nor tokenizer.model; download the model's tokenizer files "
                    "into it",
                    model_dir));
  }
  if (fs::exists(config_path)) {
    const nlohmann::json config = parse_tokenizer_file(read_tokenizer_file(config_path), config_path);
    apply_config(JsonView(config, config_path), frame, *parts);
  }
  return std::make_unique<const Tokenizer>(std::move(parts));
}

}  // namespace sluice
