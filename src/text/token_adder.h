// SPDX-License-Identifier: Apache-2.0
// Adds tokens to a tokenizer the way Hugging Face tokenizers numbers them. Borrows the tokenizer's parts, which change
// when it is finished.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/tokenizer_parts.h"

namespace sluice {

class TokenAdder {
 public:
  explicit TokenAdder(TokenizerParts& parts);

  // Null where no such token was added.
  const AddedToken* find(const std::string& content) const;
  // A token that is there keeps its id, and stays special; any other that the vocabulary lacks comes behind all.
  TokenId add(AddedToken token);
  std::size_t total_bytes() const { return total_bytes_; }  // of all there are
  void finish();

 private:
  TokenizerParts& parts_;
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t> known_;
  std::size_t next_id_;
  std::size_t total_bytes_ = 0;
  bool has_changed_ = false;
};

}  // namespace sluice
