// SPDX-License-Identifier: Apache-2.0
// The tokens that the other files of a model's folder add to those of its tokenizer, or give other flags, as
// transformers does it: those that tokenizer_config.json lists (added_tokens_decoder), or else added_tokens.json, and
// those that have a role there or in special_tokens_map.json.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
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
  // In the order of the file: of the document, and of an object in it with special tokens that only this model has.
  const std::vector<std::string>& keys() const { return keys_; }
  const std::vector<std::string>& keys_of(const std::string& object) const { return keys_of_.at(object); }

 private:
  void note(int depth, const std::string& key);

  std::string path_;
  std::optional<nlohmann::json> document_;
  std::vector<std::string> keys_;
  std::map<std::string, std::vector<std::string>> keys_of_;
};

class FolderTokens {
 public:
  explicit FolderTokens(const std::filesystem::path& folder);

  std::optional<JsonView> config() const { return config_.view(); }
  // The token of a role that no file mentions.
  void set_default(const std::string& role, const std::string& content);
  // Adds the tokens, and names those of the roles.
  void apply_to(TokenizerParts& parts) const;
  // The roles and their tokens, as a chat template gets them.
  std::vector<std::pair<std::string, std::string>> named() const;

 private:
  enum class Objects { kAsTheySay, kSpecial };
  using Role = std::pair<std::string, AddedToken>;

  void set_class_defaults();
  void read_config(const JsonView& config);
  void read_list(const JsonView& list);
  void read_map(const JsonView& map);
  void read_roles(const SideFile& file, Objects objects);
  void read_extra(const JsonView& tokens, Objects objects);
  void read_own(const std::string& object, const SideFile& file, Objects objects);
  std::vector<Role> roles() const;

  void add_listed(TokenAdder& adder) const;
  void add_contents(TokenAdder& adder) const;
  void name(const std::string& role, const TokenizerParts& parts, std::optional<TokenId>& id) const;

  std::string folder_;
  SideFile config_;
  SideFile contents_;
  SideFile map_;
  bool has_list_ = false;
  std::map<TokenId, AddedToken> list_;
  std::map<std::string, std::optional<AddedToken>> standard_;  // nothing where a file says null
  std::map<std::string, std::string> defaults_;                // of the class; they are not added to a vocabulary
  // Of roles that only this model has: objects and those of the map, then strings and those that the config lists.
  std::vector<Role> own_;
  std::vector<Role> listed_own_;
  bool has_more_ = false;
  std::vector<AddedToken> more_;  // without a role
};

}  // namespace sluice
