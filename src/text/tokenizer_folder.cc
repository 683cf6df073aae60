// SPDX-License-Identifier: Apache-2.0
// A tokenizer from the folder of a model: which files there are, and what tokenizer_config.json adds to them.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "text/gpt2_files.h"
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

// A JSON file of the folder that may be missing.
class SideFile {
 public:
  explicit SideFile(const std::filesystem::path& path) : path_(path.string()) {
    if (std::filesystem::exists(path_)) document_ = parse_tokenizer_file(read_tokenizer_file(path_), path_);
  }
  std::optional<JsonView> view() const { return document_ ? std::optional(JsonView(*document_, path_)) : std::nullopt; }

 private:
  std::string path_;
  std::optional<nlohmann::json> document_;
};

constexpr std::array<std::string_view, 4> kRoles{"bos_token", "eos_token", "pad_token", "unk_token"};

void name_tokens(const JsonView& config, TokenizerParts& parts) {
  NamedTokens& named = parts.named;
  const std::array<std::optional<TokenId>*, 4> places{&named.bos, &named.eos, &named.pad, &named.unk};
  for (std::size_t i = 0; i < kRoles.size(); ++i) {
    if (const auto id = named_token(config, kRoles[i], parts)) *places[i] = id;
  }
}

void frame_text(const JsonView& config, Frame frame, TokenizerParts& parts) {
  if (frame == Frame::kFromFile && !rebuilds_frame(config)) return;
  set_side(config, "add_bos_token", parts.named.bos, parts.frame.before);
  set_side(config, "add_eos_token", parts.named.eos, parts.frame.behind);
}

// The tokens that a folder's files add to those of the tokenizer's own, or give other flags.
class TokenAdder {
 public:
  explicit TokenAdder(TokenizerParts& parts) : parts_(parts), tokens_(parts.added->all()) {
    for (std::size_t idx = 0; idx < tokens_.size(); ++idx) known_.emplace(tokens_[idx].content, idx);
  }

  // {"32000": {"content": "<|end|>", "special": true}, ...}
  void add_decoder(const JsonView& decoder) {
    for (const auto& [id, key] : in_order_of_ids(decoder)) {
      const JsonView entry = decoder.at(key);
      const bool is_special = entry.boolean_or("special", false);
      add({.id = id,
           .content = entry.at("content").string(),
           .single_word = entry.boolean_or("single_word", false),
           .lstrip = entry.boolean_or("lstrip", false),
           .rstrip = entry.boolean_or("rstrip", false),
           .normalized = entry.boolean_or("normalized", !is_special),
           .special = is_special});
    }
  }

  // {"<|end|>": 32000, ...}
  void add_contents(const JsonView& contents, const std::set<std::string>& special) {
    if (!contents.value().is_object()) contents.refuse("an object of ids by token");
    for (const auto& item : contents.value().items()) {
      const JsonView entry = contents.at(item.key());
      const bool is_special = special.contains(item.key());
      add({.id = static_cast<TokenId>(entry.number_below(kIdLimit)),
           .content = item.key(),
           .normalized = !is_special,
           .special = is_special});
    }
  }

  void finish() {
    if (!has_changed_) return;
    parts_.added = std::make_unique<AddedTokens>(std::move(tokens_), [this](const std::string& content) {
      return parts_.normalize(AlignedText(content, 0, Tracking::kOff)).text();
    });
  }

 private:
  static constexpr std::uint64_t kIdLimit = 1 << 24;

  static std::map<TokenId, std::string> in_order_of_ids(const JsonView& decoder) {
    if (!decoder.value().is_object()) decoder.refuse("an object of tokens by id");
    std::map<TokenId, std::string> keys;
    for (const auto& item : decoder.value().items()) {
      TokenId id = 0;
      const char* const end = item.key().data() + item.key().size();
      const auto [stop, failure] = std::from_chars(item.key().data(), end, id);
      if (failure != std::errc() || stop != end || id >= kIdLimit) {
        decoder.fail(fmt::format("has a key that is no id below {}", kIdLimit));
      }
      keys.emplace(id, item.key());
    }
    return keys;
  }

  // A token that there is keeps its id; one whose id is taken comes behind all others.
  void add(AddedToken token) {
    if (token.content.empty()) return;
    const auto [found, is_new] = known_.emplace(token.content, tokens_.size());
    if (!is_new) {
      AddedToken& known = tokens_[found->second];
      token.id = known.id;
      has_changed_ = has_changed_ || flags(known) != flags(token);
      known = std::move(token);
      return;
    }
    if (const auto id = parts_.model->vocabulary().id_of(token.content)) {
      token.id = *id;
    } else if (parts_.decoder_token(token.id) || added_ids_.contains(token.id)) {
      token.id = static_cast<TokenId>(parts_.id_limit());
      while (added_ids_.contains(token.id)) ++token.id;
    }
    added_ids_.insert(token.id);
    has_changed_ = true;
    tokens_.push_back(std::move(token));
  }

  static std::array<bool, 5> flags(const AddedToken& token) {
    return {token.single_word, token.lstrip, token.rstrip, token.normalized, token.special};
  }

  TokenizerParts& parts_;
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t> known_;
  std::set<TokenId> added_ids_;
  bool has_changed_ = false;
};

// What the files name as bos, eos and the like.
void collect_special(const std::optional<JsonView>& file, std::set<std::string>& special) {
  if (!file) return;
  const auto put = [&](const nlohmann::json& token) {
    const nlohmann::json& content = token.is_object() && token.contains("content") ? token.at("content") : token;
    if (content.is_string()) special.insert(content.get<std::string>());
  };
  for (const std::string_view role : kRoles) {
    if (const auto token = file->find(role)) put(token->value());
  }
  const auto more = file->find("additional_special_tokens");
  if (!more || !more->value().is_array()) return;
  for (const nlohmann::json& token : more->value()) put(token);
}

void apply_side_files(const std::filesystem::path& folder, Frame frame, TokenizerParts& parts) {
  const SideFile config(folder / "tokenizer_config.json");
  const SideFile roles(folder / "special_tokens_map.json");
  TokenAdder adder(parts);
  const auto decoder = config.view() ? config.view()->find("added_tokens_decoder") : std::nullopt;
  if (decoder) {
    adder.add_decoder(*decoder);
  } else if (frame == Frame::kFromConfig) {
    const SideFile contents(folder / "added_tokens.json");
    std::set<std::string> special;
    collect_special(config.view(), special);
    collect_special(roles.view(), special);
    if (contents.view()) adder.add_contents(*contents.view(), special);
  }
  adder.finish();
  // The config's word counts before that of the map.
  if (roles.view()) name_tokens(*roles.view(), parts);
  if (!config.view()) return;
  name_tokens(*config.view(), parts);
  frame_text(*config.view(), frame, parts);
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
  std::unique_ptr<TokenizerParts> parts;
  Frame frame = Frame::kFromFile;
  if (fs::exists(json_path)) {
    const nlohmann::json document = parse_tokenizer_file(read_tokenizer_file(json_path), json_path);
    parts = parse_tokenizer_parts(JsonView(document, json_path));
  } else if (fs::exists(model_path)) {
    parts = make_sentence_piece_parts(read_tokenizer_file(model_path), model_path);
    frame = Frame::kFromConfig;
  } else if (has_gpt2_files(folder)) {
    parts = make_gpt2_parts(folder);
    frame = Frame::kFromConfig;
  } else {
    throw InvalidInput(
        fmt::format("{} has neither tokenizer.json nor tokenizer.model, nor vocab.json and merges.txt; download the "
                    "model's tokenizer files into it",
                    model_dir));
  }
  apply_side_files(folder, frame, *parts);
  return std::make_unique<const Tokenizer>(std::move(parts));
}

}  // namespace sluice
