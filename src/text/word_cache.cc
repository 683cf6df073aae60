// SPDX-License-Identifier: Apache-2.0
#include "text/word_cache.h"

namespace sluice {

bool WordCache::find(std::string_view word, std::uint32_t offset, std::vector<ModelToken>& tokens) const {
  if (word.size() > kMaxWordBytes) return false;
  Part& part = part_of(word);
  const std::lock_guard lock(part.mutex);
  const auto found = part.words.find(word);
  if (found == part.words.end()) return false;
  for (const ModelToken& token : found->second) {
    tokens.push_back({token.id, token.begin + offset, token.end + offset});
  }
  return true;
}

void WordCache::add(std::string_view word, std::vector<ModelToken> tokens) const {
  if (word.size() > kMaxWordBytes) return;
  Part& part = part_of(word);
  const std::lock_guard lock(part.mutex);
  if (part.words.size() >= kMaxWordsPerPart) part.words.clear();
  part.words.insert_or_assign(std::string(word), std::move(tokens));
}

}  // namespace sluice
