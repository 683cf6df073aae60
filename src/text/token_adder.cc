// SPDX-License-Identifier: Apache-2.0
#include "text/token_adder.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace sluice {
namespace {

bool have_same_flags(const AddedToken& a, const AddedToken& b) {
  return a.single_word == b.single_word && a.lstrip == b.lstrip && a.rstrip == b.rstrip &&
         a.normalized == b.normalized && a.special == b.special;
}

}  // namespace

TokenAdder::TokenAdder(TokenizerParts& parts)
    : parts_(parts), tokens_(parts.added->all()), next_id_(parts.model->vocabulary().num_tokens()) {
  for (std::size_t idx = 0; idx < tokens_.size(); ++idx) {
    known_.emplace(tokens_[idx].content, idx);
    total_bytes_ += tokens_[idx].content.size();
    next_id_ = std::max<std::size_t>(next_id_, tokens_[idx].id + std::size_t{1});
  }
}

const AddedToken* TokenAdder::find(const std::string& content) const {
  const auto found = known_.find(content);
  return found == known_.end() ? nullptr : &tokens_[found->second];
}

TokenId TokenAdder::add(AddedToken token) {
  const auto [found, is_new] = known_.emplace(token.content, tokens_.size());
  if (is_new) {
    const auto in_model = parts_.model->vocabulary().id_of(token.content);
    token.id = in_model ? *in_model : static_cast<TokenId>(next_id_++);
    has_changed_ = true;
    total_bytes_ += token.content.size();
    tokens_.push_back(std::move(token));
    return tokens_.back().id;
  }
  AddedToken& known = tokens_[found->second];
  token.id = known.id;
  token.special = token.special || known.special;
  has_changed_ = has_changed_ || !have_same_flags(known, token);
  known = std::move(token);
  return known.id;
}

void TokenAdder::finish() {
  if (!has_changed_) return;
  parts_.added = std::make_unique<AddedTokens>(std::move(tokens_), [this](const std::string& content) {
    return parts_.normalize(AlignedText(content, 0, Tracking::kOff)).text();
  });
}

}  // namespace sluice
