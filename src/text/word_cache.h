// SPDX-License-Identifier: Apache-2.0
// Remembers the tokens of short words, since texts repeat them. Bounded; safe to share between threads: words are
// spread over parts with a lock each.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/token_model.h"

namespace sluice {

class WordCache {
 public:
  static constexpr std::size_t kMaxWordBytes = 96;

  // Appends the tokens of `word`, moved by `offset`, and says whether it knew them.
  bool find(std::string_view word, std::uint32_t offset, std::vector<ModelToken>& tokens) const;
  // Words that are too long are not kept; a full part starts over.
  void add(std::string_view word, std::vector<ModelToken> tokens) const;

 private:
  static constexpr std::size_t kNumParts = 64;
  static constexpr std::size_t kMaxWordsPerPart = 2048;

  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard library's name
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  struct Part {
    std::mutex mutex;
    std::unordered_map<std::string, std::vector<ModelToken>, Hash, std::equal_to<>> words;
  };

  Part& part_of(std::string_view word) const { return parts_[Hash()(word) >> 7 & (kNumParts - 1)]; }

  mutable std::array<Part, kNumParts> parts_;
};

}  // namespace sluice
