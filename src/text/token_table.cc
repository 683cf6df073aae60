// SPDX-License-Identifier: Apache-2.0
#include "text/token_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "text/component_list.h"
#include "text/python_text.h"
#include "text/sentence_piece_table.h"
#include "text/tokenizer_file.h"
#include "text/tokenizer_parts.h"

namespace sluice {
namespace {

constexpr std::string_view kBlank = "\u2581";      // SentencePiece's
constexpr std::string_view kGpt2Blank = "\u0120";  // of the byte-level alphabet
constexpr std::size_t kMaxAdded = 1 << 16;         // behind the last piece
constexpr float kAddedScore = -1000;               // what llama.cpp gives tokens that stand beside the vocabulary
constexpr float kNeverJoined = -1e9F;              // below every score that merges give

// Added tokens that some models do not mark as special though they are nothing else.
bool looks_special(std::string_view text) {
  static constexpr std::array<std::string_view, 4> kNames{"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
  if (std::find(kNames.begin(), kNames.end(), text) != kNames.end()) return true;
  return (text.starts_with("<|") && text.ends_with("|>")) || (text.starts_with("<unused") && text.ends_with('>'));
}

bool is_byte_token(std::string_view text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f'); };
  return text.size() == 6 && text.starts_with("<0x") && is_hex(text[3]) && is_hex(text[4]) && text[5] == '>';
}

void add_token(TokenTable& table, const AddedToken& added) {
  if (added.id >= table.tokens.size()) {
    for (std::size_t id = table.tokens.size(); id <= added.id; ++id) table.tokens.push_back(unused_token(id));
  }
  TokenEntry& entry = table.tokens[added.id];
  if (entry.kind == TokenKind::kUnknown || entry.kind == TokenKind::kByte) return;
  if (added.special || looks_special(added.content)) {
    entry = {added.content, TokenKind::kControl, kAddedScore};
  } else {
    entry = {replace_all(added.content, kBlank, " ", -1), TokenKind::kUserDefined, kAddedScore};
  }
}

// What tokenizer_config.json adds to a tokenizer.model: {"32000": {"content": "<|end|>", "special": true}, ...}
void add_configured_tokens(TokenTable& table, const JsonView& config) {
  const auto decoder = config.find("added_tokens_decoder");
  if (!decoder) return;
  if (!decoder->value().is_object()) decoder->refuse("an object of tokens by id");
  const std::size_t limit = table.tokens.size() + kMaxAdded;
  for (const auto& item : decoder->value().items()) {
    const JsonView token = decoder->at(item.key());
    std::size_t id = limit;
    const char* const end = item.key().data() + item.key().size();
    const auto [stop, failure] = std::from_chars(item.key().data(), end, id);
    if (failure != std::errc() || stop != end || id >= limit) token.fail(fmt::format("is no id below {}", limit));
    add_token(table, {.id = static_cast<TokenId>(id),
                      .content = token.at("content").string(),
                      .special = token.boolean_or("special", false)});
  }
}

// A merge is "left right", or a pair since tokens may hold blanks; those are then spelled as bytes are.
std::vector<std::string> read_merges(const JsonView& model) {
  std::vector<std::string> merges;
  const JsonView list = model.at("merges");
  merges.reserve(list.size());
  for (std::size_t idx = 0; idx < list.size(); ++idx) {
    const JsonView merge = list.element(idx);
    if (merge.value().is_string()) {
      merges.push_back(merge.string());
    } else {
      merges.push_back(fmt::format("{} {}", replace_all(merge.element(0).string(), " ", kGpt2Blank, -1),
                                   replace_all(merge.element(1).string(), " ", kGpt2Blank, -1)));
    }
  }
  return merges;
}

// The patterns that llama.cpp knows by name, as tokenizer.json spells them.
struct KnownSplit {
  std::string_view pattern;
  std::string_view name;
};
constexpr KnownSplit kKnownSplits[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "llama-bpe"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "qwen2"},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "tekken"},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "gpt-4o"},
};

std::string name_word_split(const JsonView& document) {
  const auto pre_tokenizer = document.find("pre_tokenizer");
  if (!pre_tokenizer) return "default";
  std::optional<std::string> pattern;
  bool splits_digits = false;
  bool byte_level_cuts = false;
  for (const JsonView& step : flatten_components(*pre_tokenizer, "pretokenizers")) {
    const std::string& type = step.at("type").string();
    if (type == "ByteLevel") {
      byte_level_cuts = step.boolean_or("use_regex", true);
    } else if (type == "Digits" && step.boolean_or("individual_digits", false) && !pattern) {
      splits_digits = true;
    } else if (type == "Split" && !pattern && !splits_digits && step.at("pattern").find("Regex")) {
      pattern = step.at("pattern").at("Regex").string();
    } else {
      return "default";
    }
  }
  if (!pattern) return !byte_level_cuts ? "default" : splits_digits ? "smollm" : "gpt-2";
  if (byte_level_cuts) return "default";
  for (const KnownSplit& known : kKnownSplits) {
    if (*pattern != known.pattern) continue;
    // "llama-bpe" also takes words that are tokens without a look at the merges; the same pattern without that is
    // dbrx's.
    const bool is_llama = known.name == "llama-bpe";
    return is_llama && !document.at("model").boolean_or("ignore_merges", false) ? "dbrx" : std::string(known.name);
  }
  return "default";
}

// tokenizer.json keeps no scores: the pair that ranks first gets the highest.
void score_by_merges(TokenTable& table, const Vocabulary& vocabulary) {
  for (std::size_t rank = table.merges.size(); rank > 0; --rank) {
    const std::string& merge = table.merges[rank - 1];
    const std::size_t blank = merge.find(' ');
    if (blank == std::string::npos) continue;
    const auto id = vocabulary.id_of(merge.substr(0, blank) + merge.substr(blank + 1));
    if (id) table.tokens[*id].score = -static_cast<float>(rank);
  }
  table.merges.clear();
}

TokenTable make_table(const JsonView& document, const TokenizerParts& parts, const std::string& where) {
  const JsonView model = document.at("model");
  const std::string type = model.string_or("type", "BPE");
  if (type != "BPE") {
    throw InvalidInput(fmt::format("{}: the tokenizer's model is {}; only BPE can be exported", where, type));
  }
  const Vocabulary& vocabulary = parts.model->vocabulary();
  TokenTable table;
  const bool has_bytes = model.boolean_or("byte_fallback", false);
  table.scheme = has_bytes ? TokenScheme::kSentencePieces : TokenScheme::kByteLevelPairs;
  const std::string unknown = model.string_or("unk_token", "");
  for (std::size_t id = 0; id < vocabulary.id_limit(); ++id) {
    const std::string* text = vocabulary.token_of(static_cast<TokenId>(id));
    table.tokens.push_back(text == nullptr ? unused_token(id) : TokenEntry{*text, TokenKind::kNormal, 0});
    if (!has_bytes || text == nullptr) continue;
    table.tokens.back().score = kNeverJoined;
    if (is_byte_token(*text)) table.tokens.back() = {*text, TokenKind::kByte, 0};
    if (*text == unknown) table.tokens.back() = {*text, TokenKind::kUnknown, 0};
  }
  table.merges = read_merges(model);
  if (has_bytes) {
    score_by_merges(table, vocabulary);
  } else {
    table.word_split = name_word_split(document);
  }
  return table;
}

}  // namespace

TokenEntry unused_token(std::size_t id) { return {fmt::format("[PAD{}]", id), TokenKind::kUnused, -10000}; }

TokenTable read_token_table(const std::string& model_dir) {
  const std::filesystem::path folder(model_dir);
  const std::string json_path = (folder / "tokenizer.json").string();
  const std::string pieces_path = (folder / "tokenizer.model").string();
  const std::string config_path = (folder / "tokenizer_config.json").string();
  const bool has_pieces = std::filesystem::exists(pieces_path);
  TokenTable table;
  if (has_pieces) {
    table = make_sentence_piece_table(read_tokenizer_file(pieces_path), pieces_path);
  } else if (!std::filesystem::exists(json_path)) {
    throw InvalidInput(fmt::format("{} has neither tokenizer.json nor tokenizer.model", model_dir));
  }
  if (std::filesystem::exists(json_path)) {
    const nlohmann::json document = parse_tokenizer_file(read_tokenizer_file(json_path), json_path);
    const std::unique_ptr<TokenizerParts> parts = parse_tokenizer_parts(JsonView(document, json_path));
    if (!has_pieces) table = make_table(JsonView(document, json_path), *parts, json_path);
    for (const AddedToken& added : parts->added->all()) add_token(table, added);
  } else if (std::filesystem::exists(config_path)) {
    const nlohmann::json config = parse_tokenizer_file(read_tokenizer_file(config_path), config_path);
    add_configured_tokens(table, JsonView(config, config_path));
  }
  return table;
}

}  // namespace sluice
