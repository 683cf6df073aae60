// SPDX-License-Identifier: Apache-2.0
// Tokens that stand beside the model's vocabulary: found in the text before the model sees it, leftmost first and
// longest of those, and kept whole. Those with `normalized` are looked for in normalized text. Immutable once parsed.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/json_view.h"
#include "text/pair_table.h"
#include "text/vocabulary.h"

namespace sluice {

inline constexpr std::size_t kMaxAddedTokens = 1 << 20;
inline constexpr std::size_t kMaxAddedTokenBytes = 4096;
inline constexpr std::size_t kMaxAddedBytes = 4 << 20;  // of all; finding them takes some 70 times as much memory

struct AddedToken {
  TokenId id = 0;
  std::string content;
  std::string matched;  // what is looked for: the content, normalized where the token asks for it
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;
  bool special = false;
};

// Finds many words at once.
class WordFinder {
 public:
  struct Found {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::uint32_t word_idx = 0;
  };

  explicit WordFinder(const std::vector<std::string>& words);
  // The leftmost word at or behind `from`, and of those that begin there the longest.
  std::optional<Found> find(std::string_view text, std::size_t from) const;
  bool empty() const { return ends_.size() == 1; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  PairTable<std::uint32_t> children_;  // (node, byte) to node
  std::vector<std::uint32_t> ends_;    // of each node, the word that ends there
  std::array<bool, 256> first_bytes_{};
};

class AddedTokens {
 public:
  using Normalize = std::function<std::string(const std::string&)>;

  enum class Stage { kRaw, kNormalized };

  struct Part {
    std::size_t begin = 0;
    std::size_t end = 0;
    const AddedToken* token = nullptr;  // null for text between tokens
  };

  AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize);
  // The `added_tokens` of tokenizer.json. Throws FormatError where an id contradicts the vocabulary.
  static std::vector<AddedToken> parse(const JsonView& view, const Vocabulary& vocabulary);

  // `text` cut into tokens of the stage and what lies between; covers it.
  std::vector<Part> cut(std::string_view text, Stage stage) const;

  std::optional<TokenId> id_of(std::string_view content) const;
  const AddedToken* token_of(TokenId id) const;
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;
  std::vector<std::uint32_t> raw_;         // indices into tokens_, in the order of the finder's words
  std::vector<std::uint32_t> normalized_;  // the same
  WordFinder raw_finder_;
  WordFinder normalized_finder_;
  std::unordered_map<TokenId, std::uint32_t> by_id_;
  std::unordered_map<std::string_view, std::uint32_t> by_content_;
};

}  // namespace sluice
