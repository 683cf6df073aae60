// SPDX-License-Identifier: Apache-2.0
// Tokens and their ids, both ways. Owns the tokens; immutable once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/json_view.h"
#include "text/token_id.h"

namespace sluice {

class Vocabulary {
 public:
  Vocabulary() = default;
  // From an object of ids. Throws FormatError for ids that are not numbers, used twice, or far beyond the number of
  // tokens.
  static Vocabulary parse(const JsonView& view);
  // The position is the id. A token that comes twice is found under its last id.
  static Vocabulary from_list(std::vector<std::string> tokens);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  std::size_t num_tokens() const { return num_tokens_; }
  std::size_t id_limit() const { return tokens_.size(); }  // one more than the greatest id
  std::optional<TokenId> id_of(std::string_view token) const;
  // Null where no token has the id.
  const std::string* token_of(TokenId id) const;

 private:
  void index();

  std::size_t num_tokens_ = 0;
  std::vector<std::string> tokens_;
  std::vector<bool> used_;
  std::unordered_map<std::string_view, TokenId> ids_;  // views of tokens_
};

}  // namespace sluice
