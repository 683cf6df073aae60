// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding: a word starts as characters, and the pair whose merge ranks first is merged until none is left.
// With a heap, so that a word of n characters takes n log n. Const use is safe from many threads (WordCache).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned_text.h"
#include "text/pair_table.h"
#include "text/token_model.h"
#include "text/word_cache.h"

namespace sluice {

class BpeModel final : public TokenModel {
 public:
  explicit BpeModel(const JsonView& view);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void encode(std::string_view piece, std::vector<ModelToken>& tokens, StopPoll& poll) const override;

 private:
  struct Merge {
    std::uint32_t rank = 0;
    TokenId result = 0;
  };
  struct Symbol {
    TokenId id = 0;
    std::int32_t previous = -1;
    std::int32_t next = -1;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    bool merged_away = false;
  };

  void parse_merges(const JsonView& merges);
  void add_merge(const JsonView& merge, std::string_view left, std::string_view right, std::uint32_t rank);
  void find_characters();

  std::optional<TokenId> character_id(char32_t character) const;
  bool can_cut(char32_t before, char32_t after) const;
  void encode_word(std::string_view word, std::uint32_t offset, std::vector<ModelToken>& tokens, StopPoll& poll) const;
  std::vector<Symbol> spell(std::string_view word, StopPoll& poll) const;
  std::string_view spelling(std::string_view word, std::size_t begin, std::size_t end, std::string& buffer) const;
  bool all_have_byte_ids(std::string_view bytes) const;
  void merge(std::vector<Symbol>& symbols, StopPoll& poll) const;

  Vocabulary vocabulary_;
  std::optional<TokenId> unk_id_;
  std::string continuing_prefix_;
  std::string end_suffix_;
  bool fuse_unk_;
  bool byte_fallback_;
  bool ignore_merges_;
  std::vector<std::optional<TokenId>> byte_ids_;  // of <0x00> to <0xFF>
  std::size_t max_token_bytes_ = 0;

  PairTable<Merge> merges_;
  std::vector<std::uint32_t> basic_plane_;  // ids of single characters below U+10000, kNone where there is none
  PairTable<TokenId> other_planes_;         // keyed by (0, character)
  // Pairs of characters that some merge joins. Between all others a long piece can be cut without changing its tokens.
  PairTable<char> seams_;
  bool seams_known_ = false;
  WordCache cache_;
};

}  // namespace sluice
