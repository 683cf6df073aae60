// SPDX-License-Identifier: Apache-2.0
// Models that look words up: WordPiece takes the longest known prefix again and again, WordLevel whole words only.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "text/token_model.h"

namespace sluice {
namespace {

// Of one word: looking it up takes the third power of its length. Real files have 100 or 200.
constexpr std::uint64_t kMostCharacters = 4096;
constexpr std::size_t kMostPrefixBytes = 256;

TokenId parse_unknown(const JsonView& view, const Vocabulary& vocabulary) {
  const auto unk = view.find("unk_token");
  const std::string token = unk ? unk->string() : "[UNK]";
  const auto id = vocabulary.id_of(token);
  if (!id) view.fail(fmt::format("has the unk_token '{}', which is not in its vocab", excerpt(token)));
  return *id;
}

std::uint32_t size_of(std::string_view text) { return static_cast<std::uint32_t>(text.size()); }

class WordPieceModel final : public TokenModel {
 public:
  explicit WordPieceModel(const JsonView& view)
      : vocabulary_(Vocabulary::parse(view.at("vocab"))),
        unk_id_(parse_unknown(view, vocabulary_)),
        prefix_(view.string_or("continuing_subword_prefix", "##")) {
    if (prefix_.size() > kMostPrefixBytes) {
      view.fail(fmt::format("has a continuing_subword_prefix of more than {} bytes", kMostPrefixBytes));
    }
    if (const auto limit = view.find("max_input_chars_per_word"))
      max_characters_ = limit->number_below(kMostCharacters + 1);
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void encode(std::string_view piece, std::vector<ModelToken>& tokens, StopPoll& /*poll*/) const override {
    const std::size_t num_before = tokens.size();
    if (num_characters(piece) <= max_characters_ && append_words(piece, tokens)) return;
    tokens.resize(num_before);
    tokens.push_back({unk_id_, 0, size_of(piece)});
  }

 private:
  static std::size_t num_characters(std::string_view text) {
    std::size_t count = 0;
    for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    return count;
  }

  bool append_words(std::string_view piece, std::vector<ModelToken>& tokens) const {
    std::string word;
    for (std::size_t begin = 0; begin < piece.size();) {
      std::size_t end = piece.size();
      std::optional<TokenId> id;
      while (begin < end) {
        word = begin > 0 ? prefix_ : "";
        word += piece.substr(begin, end - begin);
        id = vocabulary_.id_of(word);
        if (id) break;
        do {
          --end;
        } while (end > begin && (static_cast<unsigned char>(piece[end]) & 0xC0) == 0x80);
      }
      if (!id) return false;
      tokens.push_back({*id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
      begin = end;
    }
    return true;
  }

  Vocabulary vocabulary_;
  TokenId unk_id_;
  std::string prefix_;
  std::size_t max_characters_ = 100;
};

class WordLevelModel final : public TokenModel {
 public:
  explicit WordLevelModel(const JsonView& view)
      : vocabulary_(Vocabulary::parse(view.at("vocab"))), unk_id_(parse_unknown(view, vocabulary_)) {}

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void encode(std::string_view piece, std::vector<ModelToken>& tokens, StopPoll& /*poll*/) const override {
    tokens.push_back({vocabulary_.id_of(piece).value_or(unk_id_), 0, size_of(piece)});
  }

 private:
  Vocabulary vocabulary_;
  TokenId unk_id_;
};

}  // namespace

std::unique_ptr<const TokenModel> parse_word_piece_model(const JsonView& view) {
  return std::make_unique<WordPieceModel>(view);
}

std::unique_ptr<const TokenModel> parse_word_level_model(const JsonView& view) {
  return std::make_unique<WordLevelModel>(view);
}

}  // namespace sluice
