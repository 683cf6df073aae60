// SPDX-License-Identifier: Apache-2.0
#include "text/folder_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/regular_file.h"
#include "base/units.h"
#include "text/gpt2_files.h"
#include "text/tokenizer_file.h"

namespace sluice {
namespace {

constexpr std::uint64_t kIdLimit = 1 << 24;
constexpr std::array<std::string_view, 7> kRoles{"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};

constexpr std::size_t kMaxOwnRoles = 1024;
constexpr const char* kExtra = "extra_special_tokens";
constexpr const char* kAdditional = "additional_special_tokens";  // what older files call them
constexpr const char* kOfModel = "model_specific_special_tokens";

struct ClassDefault {
  std::string_view class_name;
  const char* role;
  const char* token;
};

constexpr ClassDefault kClassDefaults[] = {
    {"LlamaTokenizer", "bos_token", "<s>"},           {"LlamaTokenizer", "eos_token", "</s>"},
    {"LlamaTokenizer", "unk_token", "<unk>"},         {"GemmaTokenizer", "bos_token", "<bos>"},
    {"GemmaTokenizer", "eos_token", "<eos>"},         {"GemmaTokenizer", "unk_token", "<unk>"},
    {"GemmaTokenizer", "pad_token", "<pad>"},         {"GemmaTokenizer", "mask_token", "<mask>"},
    {"GPT2Tokenizer", "bos_token", kGpt2EndOfText},   {"GPT2Tokenizer", "eos_token", kGpt2EndOfText},
    {"GPT2Tokenizer", "unk_token", kGpt2EndOfText},   {"Qwen2Tokenizer", "eos_token", "<|endoftext|>"},
    {"Qwen2Tokenizer", "unk_token", "<|endoftext|>"}, {"Qwen2Tokenizer", "pad_token", "<|endoftext|>"},
};

bool is_standard(std::string_view role) { return std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end(); }

// A name that comes again keeps its place. What is looked through for it is short.
void set(std::vector<std::pair<std::string, AddedToken>>& roles, const std::string& name, AddedToken token) {
  const auto found = std::find_if(roles.begin(), roles.end(), [&](const auto& role) { return role.first == name; });
  if (found == roles.end()) {
    roles.emplace_back(name, std::move(token));
  } else {
    found->second = std::move(token);
  }
}

void require_token_size(const std::string& content, const JsonView& at) {
  if (content.size() > kMaxAddedTokenBytes) {
    at.fail(fmt::format("has a token of more than {} bytes", kMaxAddedTokenBytes));
  }
}

void require_count(const JsonView& tokens) {
  if (tokens.value().size() > kMaxAddedTokens) tokens.fail(fmt::format("has more than {} tokens", kMaxAddedTokens));
}

void require_own_role(const std::string& name, std::size_t num_before, const JsonView& at) {
  if (name.size() > kMaxAddedTokenBytes) at.fail(fmt::format("has a key of more than {} bytes", kMaxAddedTokenBytes));
  if (num_before >= kMaxOwnRoles) at.fail(fmt::format("has more than {} roles of tokens", kMaxOwnRoles));
}

AddedToken special_token(std::string content) { return {.content = std::move(content), .special = true}; }

AddedToken read_object(const JsonView& entry, bool is_special) {
  is_special = is_special || entry.boolean_or("special", false);
  AddedToken token{.content = entry.at("content").string(),
                   .single_word = entry.boolean_or("single_word", false),
                   .lstrip = entry.boolean_or("lstrip", false),
                   .rstrip = entry.boolean_or("rstrip", false),
                   .normalized = entry.boolean_or("normalized", !is_special),
                   .special = is_special};
  require_token_size(token.content, entry);
  return token;
}

AddedToken read_token(const JsonView& entry, bool is_special) {
  if (entry.value().is_object()) return read_object(entry, is_special);
  if (!entry.value().is_string()) entry.refuse("a token: a string, or an object with its content");
  require_token_size(entry.string(), entry);
  return special_token(entry.string());
}

TokenId read_id(const std::string& key, const JsonView& tokens) {
  TokenId id = 0;
  const char* const end = key.data() + key.size();
  const auto [stop, failure] = std::from_chars(key.data(), end, id);
  if (failure == std::errc() && stop == end && id < kIdLimit) return id;
  tokens.fail(fmt::format("has a key that is no id below {}", kIdLimit));
}

void add_as(TokenId stated, const AddedToken& token, const JsonView& at, TokenAdder& adder) {
  if (token.content.empty()) return;
  if (const TokenId id = adder.add(token); id != stated) {
    at.fail(fmt::format("gives '{}' the id {}, but {} is what it has in the vocabulary, or gets behind it",
                        excerpt(token.content), stated, id));
  }
}

}  // namespace

SideFile::SideFile(const std::filesystem::path& path) : path_(path.string()) {
  if (!is_regular_file(path_)) return;
  document_ = parse_tokenizer_file(read_tokenizer_file(path_), path_,
                                   [this](int depth, const std::string& key) { note(depth, key); });
}

void SideFile::note(int depth, const std::string& key) {
  if (depth == 1) {
    keys_.push_back(key);
    if (key == kExtra || key == kAdditional || key == kOfModel) keys_of_[key].clear();
  } else if (depth == 2 && !keys_.empty()) {
    if (const auto object = keys_of_.find(keys_.back()); object != keys_of_.end()) object->second.push_back(key);
  }
}

std::optional<JsonView> SideFile::view() const {
  return document_ ? std::optional(JsonView(*document_, path_)) : std::nullopt;
}

// Where the config lists tokens, the map is not looked at; where it does not, the map's word counts before its own.
FolderTokens::FolderTokens(const std::filesystem::path& folder)
    : folder_(folder.string()),
      config_(folder / "tokenizer_config.json"),
      contents_(folder / "added_tokens.json"),
      map_(folder / "special_tokens_map.json") {
  if (const auto config = config_.view()) read_config(*config);
  if (const auto map = map_.view(); map && !has_list_) read_map(*map);
}

void FolderTokens::read_config(const JsonView& config) {
  set_class_defaults();
  read_roles(config_, Objects::kAsTheySay);
  const nlohmann::json& keys = config.value();
  if (const char* const key = keys.contains(kExtra) ? kExtra : kAdditional; keys.contains(key)) {
    has_more_ = !keys.at(key).is_object();
    if (keys.at(key).is_object()) {
      read_own(key, config_, Objects::kAsTheySay);
    } else if (const auto tokens = config.find(key)) {
      read_extra(*tokens, Objects::kAsTheySay);
    }
  }
  if (listed_own_.empty() && config.find(kOfModel)) read_own(kOfModel, config_, Objects::kAsTheySay);
  if (const auto list = config.find("added_tokens_decoder")) read_list(*list);
}

void FolderTokens::set_class_defaults() {
  std::string name = config_.view()->string_or("tokenizer_class", "");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  for (const ClassDefault& one : kClassDefaults) {
    if (one.class_name == name) defaults_[one.role] = one.token;
  }
}

void FolderTokens::read_list(const JsonView& list) {
  has_list_ = true;
  if (!list.value().is_object()) list.refuse("an object of tokens by id");
  require_count(list);
  for (const auto& item : list.value().items()) {
    list_.emplace(read_id(item.key(), list), read_object(list.at(item.key()), false));
  }
}

void FolderTokens::read_map(const JsonView& map) {
  read_roles(map_, Objects::kSpecial);
  if (const auto tokens = map.find(kExtra)) {
    if (tokens->value().is_object()) {
      read_own(kExtra, map_, Objects::kSpecial);
    } else {
      has_more_ = true;
      read_extra(*tokens, Objects::kSpecial);
    }
  }
  if (const auto tokens = map.find(kAdditional); tokens && !has_more_) read_extra(*tokens, Objects::kSpecial);
}

// In a config a token of its own that is an object says so; one of the usual roles need not.
void FolderTokens::read_roles(const SideFile& file, Objects objects) {
  const JsonView view = *file.view();
  if (!view.value().is_object()) view.refuse("an object");
  const bool is_config = objects == Objects::kAsTheySay;
  for (const std::string& key : file.keys()) {
    const nlohmann::json& token = view.value().at(key);
    if (is_standard(key)) {
      standard_[key] = token.is_null() ? std::nullopt : std::optional(read_token(view.at(key), !is_config));
    } else if (key.ends_with("_token") && (token.is_string() || token.contains(is_config ? "__type" : "content"))) {
      require_own_role(key, own_.size() + listed_own_.size(), view);
      set(token.is_string() && is_config ? listed_own_ : own_, key, read_token(view.at(key), !is_config));
    }
  }
}

void FolderTokens::read_own(const std::string& object, const SideFile& file, Objects objects) {
  const JsonView tokens = file.view()->at(object);
  if (!tokens.value().is_object()) tokens.refuse("an object of tokens by role");
  for (const std::string& key : file.keys_of(object)) {
    require_own_role(key, own_.size() + listed_own_.size(), tokens);
    set(listed_own_, key, read_token(tokens.at(key), objects == Objects::kSpecial));
  }
}

void FolderTokens::read_extra(const JsonView& tokens, Objects objects) {
  require_count(tokens);
  for (std::size_t idx = 0; idx < tokens.size(); ++idx) {
    more_.push_back(read_token(tokens.element(idx), objects == Objects::kSpecial));
  }
}

void FolderTokens::set_default(const std::string& role, const std::string& content) {
  standard_.emplace(role, special_token(content));
}

// In the order that transformers adds them in.
std::vector<FolderTokens::Role> FolderTokens::roles() const {
  std::vector<Role> roles;
  for (const std::string_view role : kRoles) {
    const auto found = standard_.find(std::string(role));
    if (found != standard_.end() && found->second) roles.emplace_back(role, *found->second);
  }
  std::vector<Role> own = own_;
  for (const auto& [name, token] : listed_own_) set(own, name, token);
  roles.insert(roles.end(), own.begin(), own.end());
  return roles;
}

std::vector<std::pair<std::string, std::string>> FolderTokens::named() const {
  std::vector<std::pair<std::string, std::string>> named;
  for (const auto& [role, token] : roles()) named.emplace_back(role, token.content);
  for (const auto& [role, content] : defaults_) {
    if (!standard_.contains(role)) named.emplace_back(role, content);
  }
  return named;
}

void FolderTokens::add_listed(TokenAdder& adder) const {
  const JsonView at = config_.view()->at("added_tokens_decoder");
  std::unordered_set<std::string> named;
  for (const auto& [role, token] : roles()) named.insert(token.content);
  for (auto [id, token] : list_) {
    token.special = token.special || named.contains(token.content);
    add_as(id, token, at, adder);
  }
}

// Those of tokenizer.json itself count before these.
void FolderTokens::add_contents(TokenAdder& adder) const {
  const auto contents = contents_.view();
  if (!contents) return;
  if (!contents->value().is_object()) contents->refuse("an object of ids by token");
  require_count(*contents);
  std::multimap<TokenId, std::string> by_id;
  for (const auto& item : contents->value().items()) {
    require_token_size(item.key(), *contents);
    by_id.emplace(static_cast<TokenId>(contents->at(item.key()).number_below(kIdLimit)), item.key());
  }
  std::unordered_set<std::string> special;
  for (const auto& [role, token] : standard_) {
    if (token) special.insert(token->content);
  }
  if (has_more_) {  // not those that older files list in the map alone
    for (const AddedToken& token : more_) special.insert(token.content);
  }
  for (const auto& [id, content] : by_id) {
    if (adder.find(content) != nullptr) continue;
    const bool is_special = special.contains(content);
    add_as(id, {.content = content, .normalized = !is_special, .special = is_special}, *contents, adder);
  }
}

void FolderTokens::name(const std::string& role, const TokenizerParts& parts, std::optional<TokenId>& id) const {
  const auto found = standard_.find(role);
  if (found != standard_.end()) {
    if (found->second) id = parts.id_of(found->second->content);
  } else if (const auto usual = defaults_.find(role); usual != defaults_.end()) {
    if (const auto there = parts.id_of(usual->second)) id = there;
  }
}

// A token that is there already keeps its flags, whatever stands beside its role, but is special; where a list has it,
// that said so. What comes with the roles is as the last of them has it.
void FolderTokens::apply_to(TokenizerParts& parts) const {
  TokenAdder adder(parts);
  if (has_list_) {
    add_listed(adder);
  } else {
    add_contents(adder);
  }
  const auto add_if_new = [&adder](const AddedToken& token) {
    if (!token.content.empty() && adder.find(token.content) == nullptr) adder.add(token);
  };
  std::unordered_set<std::string> come_with_roles;
  for (auto [role, token] : roles()) {
    const AddedToken* const known = adder.find(token.content);
    if (token.content.empty()) continue;
    if (known == nullptr) come_with_roles.insert(token.content);
    if (!come_with_roles.contains(token.content)) {
      if (has_list_) continue;
      token = *known;
    }
    token.special = true;
    adder.add(token);
  }
  for (const auto& [role, content] : defaults_) {
    if (!standard_.contains(role) && parts.id_of(content)) add_if_new(special_token(content));
  }
  for (const AddedToken& token : more_) add_if_new(token);
  if (adder.total_bytes() > kMaxAddedBytes) {
    throw FormatError(fmt::format("the files of '{}' add tokens of more than {} together; are they damaged?", folder_,
                                  format_bytes(kMaxAddedBytes)));
  }
  adder.finish();
  name("bos_token", parts, parts.named.bos);
  name("eos_token", parts, parts.named.eos);
  name("pad_token", parts, parts.named.pad);
  name("unk_token", parts, parts.named.unk);
}

}  // namespace sluice
