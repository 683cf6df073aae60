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

#include "base/regular_file.h"
#include "text/tokenizer_file.h"

namespace sluice {
namespace {

constexpr std::uint64_t kIdLimit = 1 << 24;
constexpr std::array<std::string_view, 7> kRoles{"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};

bool is_every_tokenizers(std::string_view role) {
  return std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
}

void require_token_size(const std::string& content, const JsonView& at) {
  if (content.size() > kMaxAddedTokenBytes) {
    at.fail(fmt::format("has a token of more than {} bytes", kMaxAddedTokenBytes));
  }
}

void require_count(const JsonView& tokens) {
  if (tokens.value().size() > kMaxAddedTokens) tokens.fail(fmt::format("has more than {} tokens", kMaxAddedTokens));
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
  if (is_regular_file(path_)) document_ = parse_tokenizer_file(read_tokenizer_file(path_), path_);
}

std::optional<JsonView> SideFile::view() const {
  return document_ ? std::optional(JsonView(*document_, path_)) : std::nullopt;
}

// Where the config lists tokens, the map is not looked at; where it does not, the map's word counts before its own.
FolderTokens::FolderTokens(const std::filesystem::path& folder)
    : config_(folder / "tokenizer_config.json"),
      contents_(folder / "added_tokens.json"),
      map_(folder / "special_tokens_map.json") {
  if (const auto config = config_.view()) {
    read_roles(*config, Objects::kAsTheySay);
    if (const auto list = config->find("added_tokens_decoder")) {
      has_list_ = true;
      if (!list->value().is_object()) list->refuse("an object of tokens by id");
      require_count(*list);
      for (const auto& item : list->value().items()) {
        const TokenId id = read_id(item.key(), *list);
        const AddedToken& token = list_.emplace(id, read_object(list->at(item.key()), false)).first->second;
        listed_.insert_or_assign(token.content, id);
      }
    }
  }
  if (const auto map = map_.view(); map && !has_list_) read_roles(*map, Objects::kSpecial);
}

void FolderTokens::read_roles(const JsonView& file, Objects objects) {
  if (!file.value().is_object()) file.refuse("an object");
  for (const auto& item : file.value().items()) {
    const nlohmann::json& token = item.value();
    const bool is_known = is_every_tokenizers(item.key());
    if (is_known && token.is_null()) {
      roles_[item.key()] = std::nullopt;
    } else if (is_known || (item.key().ends_with("_token") && (token.is_string() || token.contains("content")))) {
      roles_[item.key()] = read_token(file.at(item.key()), objects == Objects::kSpecial);
    }
  }
  for (const char* const key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (const auto tokens = file.find(key)) read_more(*tokens, objects);
  }
}

void FolderTokens::read_more(const JsonView& tokens, Objects objects) {
  require_count(tokens);
  if (tokens.value().is_object()) {
    for (const auto& item : tokens.value().items()) {
      roles_[item.key()] = read_token(tokens.at(item.key()), objects == Objects::kSpecial);
    }
    return;
  }
  for (std::size_t idx = 0; idx < tokens.size(); ++idx) more_.push_back(read_token(tokens.element(idx), false));
}

void FolderTokens::set_default(const std::string& role, const std::string& content) {
  roles_.emplace(role, special_token(content));
}

void FolderTokens::add_listed(TokenAdder& adder) const {
  const JsonView at = config_.view()->at("added_tokens_decoder");
  for (const auto& [id, token] : list_) add_as(id, token, at, adder);
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
  std::unordered_set<std::string_view> special;
  for (const AddedToken& token : more_) special.insert(token.content);
  for (const auto& [role, token] : roles_) {
    if (token) special.insert(token->content);
  }
  for (const auto& [id, content] : by_id) {
    if (adder.find(content) != nullptr) continue;
    const bool is_special = special.contains(content);
    add_as(id, {.content = content, .normalized = !is_special, .special = is_special}, *contents, adder);
  }
}

// What a list says of the token counts before what stands beside the role.
void FolderTokens::add_role(const std::string& role, TokenAdder& adder) const {
  AddedToken token = *roles_.at(role);
  if (token.content.empty()) return;
  if (!has_list_) {
    if (const AddedToken* const known = adder.find(token.content)) token = *known;
  } else if (const auto found = listed_.find(token.content); found != listed_.end()) {
    token = list_.at(found->second);
  }
  token.special = true;
  adder.add(std::move(token));
}

void FolderTokens::name(const std::string& role, const TokenizerParts& parts, std::optional<TokenId>& id) const {
  const auto found = roles_.find(role);
  if (found != roles_.end() && found->second) id = parts.id_of(found->second->content);
}

void FolderTokens::apply_to(TokenizerParts& parts) const {
  TokenAdder adder(parts);
  if (has_list_) {
    add_listed(adder);
  } else {
    add_contents(adder);
  }
  const auto has_token = [&](const auto& role) { return role != roles_.end() && role->second; };
  for (const std::string_view role : kRoles) {
    if (const auto found = roles_.find(std::string(role)); has_token(found)) add_role(found->first, adder);
  }
  for (auto role = roles_.begin(); role != roles_.end(); ++role) {
    if (has_token(role) && !is_every_tokenizers(role->first)) add_role(role->first, adder);
  }
  for (AddedToken token : more_) {
    token.special = true;
    if (!token.content.empty()) adder.add(std::move(token));
  }
  adder.finish();
  name("bos_token", parts, parts.named.bos);
  name("eos_token", parts, parts.named.eos);
  name("pad_token", parts, parts.named.pad);
  name("unk_token", parts, parts.named.unk);
}

}  // namespace sluice
