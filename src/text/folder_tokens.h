// SPDX-License-Identifier: Apache-2.0
// The tokens that the other files of a model's folder add to those of its tokenizer, or give other flags, as
// transformers does it: those that tokenizer_config.json lists (added_tokens_decoder), or else added_tokens.json, and
// those that have a role there or in special_tokens_map.json.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/json_view.h"
#include "text/token_adder.h"

namespace sluice {

// A JSON file that may be missing.
class SideFile {
 public:
  // Throws InvalidInput where it is there and no file, FormatError where it is damaged.
  explicit SideFile(const std::filesystem::path& path);
  std::optional<JsonView> view() const;

 private:
  std::string path_;
  std::optional<nlohmann::json> document_;
};

class FolderTokens {
 public:
  explicit FolderTokens(const std::filesystem::path& folder);

  std::optional<JsonView> config() const { return config_.view(); }
  // The token of a role that no file mentions.
  void set_default(const std::string& role, const std::string& content);
  // Adds the tokens, and names those of the roles.
  void apply_to(TokenizerParts& parts) const;

 private:
  enum class Objects { kAsTheySay, kSpecial };

  void read_roles(const JsonView& file, Objects objects);
  void read_more(const JsonView& tokens, Objects objects);
  void add_listed(TokenAdder& adder) const;
  void add_contents(TokenAdder& adder) const;
  void add_role(const std::string& role, TokenAdder& adder) const;
  void name(const std::string& role, const TokenizerParts& parts, std::optional<TokenId>& id) const;

  SideFile config_;
  SideFile contents_;
  SideFile map_;
  bool has_list_ = false;
  std::map<TokenId, AddedToken> list_;
  std::unordered_map<std::string, TokenId> listed_;
  std::map<std::string, std::optional<AddedToken>> roles_;  // nothing where a file says null
  std::vector<AddedToken> more_;                            // special ones without a role
};

}  // namespace sluice
