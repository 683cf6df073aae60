// SPDX-License-Identifier: Apache-2.0
#include "text/vocabulary.h"

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::size_t kMaxTokens = 1 << 24;
// Holes that a file may leave between its ids, so that memory follows the file's size.
constexpr std::size_t kMaxUnused = 1 << 16;

}  // namespace

Vocabulary Vocabulary::parse(const JsonView& view) {
  if (!view.value().is_object()) view.refuse("an object of ids by token");
  Vocabulary vocabulary;
  vocabulary.num_tokens_ = view.value().size();
  const std::size_t limit = std::min(2 * vocabulary.num_tokens_ + kMaxUnused, kMaxTokens);
  std::size_t id_limit = 0;
  for (const auto& [token, id] : view.value().items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= limit) {
      view.at(token).refuse(fmt::format("an id below {} (there are {} tokens)", limit, vocabulary.num_tokens_));
    }
    id_limit = std::max<std::size_t>(id_limit, id.get<std::size_t>() + 1);
  }
  vocabulary.tokens_.resize(id_limit);
  vocabulary.used_.resize(id_limit);
  for (const auto& [token, id] : view.value().items()) {
    const auto place = id.get<std::size_t>();
    if (vocabulary.used_[place]) {
      view.fail(fmt::format("gives the id {} twice, to '{}' and to '{}'", place, excerpt(vocabulary.tokens_[place]),
                            excerpt(token)));
    }
    vocabulary.used_[place] = true;
    vocabulary.tokens_[place] = token;
  }
  vocabulary.index();
  return vocabulary;
}

Vocabulary Vocabulary::from_list(std::vector<std::string> tokens) {
  Vocabulary vocabulary;
  vocabulary.num_tokens_ = tokens.size();
  vocabulary.used_.assign(tokens.size(), true);
  vocabulary.tokens_ = std::move(tokens);
  vocabulary.index();
  return vocabulary;
}

void Vocabulary::index() {
  ids_.reserve(tokens_.size());
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (used_[id]) ids_.insert_or_assign(tokens_[id], static_cast<TokenId>(id));
  }
}

std::optional<TokenId> Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocabulary::token_of(TokenId id) const {
  return id < tokens_.size() && used_[id] ? &tokens_[id] : nullptr;
}

}  // namespace sluice
