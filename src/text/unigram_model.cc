// SPDX-License-Identifier: Apache-2.0
// Unigram: every token has a score, and a word becomes the tokens whose scores add up to most (Viterbi).
#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "text/aligned_text.h"
#include "text/pair_table.h"
#include "text/token_model.h"
#include "text/utf8.h"
#include "text/word_cache.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxPieces = 1 << 24;
constexpr std::size_t kMaxTokenBytes = 4096;
constexpr std::uint32_t kNoNode = std::numeric_limits<std::uint32_t>::max();
// How much worse than the worst token an unknown character is.
constexpr double kUnknownPenalty = 10.0;

class UnigramModel final : public TokenModel {
 public:
  explicit UnigramModel(const JsonView& view);

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void encode(std::string_view piece, std::vector<ModelToken>& tokens, StopPoll& poll) const override {
    if (cache_.find(piece, 0, tokens)) return;
    std::vector<ModelToken> fresh = best_path(piece, poll);
    tokens.insert(tokens.end(), fresh.begin(), fresh.end());
    cache_.add(piece, std::move(fresh));
  }

 private:
  struct Node {
    TokenId id = 0;
    double score = 0;
    std::uint32_t begin = kNoNode;  // of the token that ends here on the best path
  };

  void build_trie();
  void offer(Node& node, TokenId id, double score, std::size_t begin) const;
  std::vector<ModelToken> best_path(std::string_view piece, StopPoll& poll) const;
  void append_unknown(std::string_view piece, ByteRange range, std::vector<ModelToken>& tokens) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  std::optional<TokenId> unk_id_;
  bool byte_fallback_ = false;
  double unknown_score_ = 0;
  PairTable<std::uint32_t> children_{0};  // (node, byte) to node
  std::vector<std::uint32_t> token_at_;   // of each node, kNoNode where no token ends
  WordCache cache_;
};

UnigramModel::UnigramModel(const JsonView& view) : byte_fallback_(view.boolean_or("byte_fallback", false)) {
  const JsonView list = view.at("vocab");
  if (list.size() > kMaxPieces) list.fail(fmt::format("has {} tokens; at most {} are taken", list.size(), kMaxPieces));
  std::vector<std::string> tokens;
  double worst = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto& entry = list.value()[i];
    const bool good = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!good) list.element(i).refuse("a token and its score");
    if (entry[0].get_ref<const std::string&>().size() > kMaxTokenBytes) {
      list.element(i).fail(fmt::format("is a token of more than {} bytes", kMaxTokenBytes));
    }
    tokens.push_back(entry[0].get<std::string>());
    scores_.push_back(entry[1].get<double>());
    worst = std::min(worst, scores_.back());
  }
  unknown_score_ = worst - kUnknownPenalty;
  if (const auto unk = view.find("unk_id")) unk_id_ = static_cast<TokenId>(unk->number_below(tokens.size()));
  vocabulary_ = Vocabulary::from_list(std::move(tokens));
  build_trie();
}

void UnigramModel::build_trie() {
  std::size_t num_bytes = 0;
  for (std::size_t id = 0; id < scores_.size(); ++id)
    num_bytes += vocabulary_.token_of(static_cast<TokenId>(id))->size();
  children_ = PairTable<std::uint32_t>(num_bytes);
  token_at_.assign(1, kNoNode);
  for (std::size_t id = 0; id < scores_.size(); ++id) {
    const std::string& token = *vocabulary_.token_of(static_cast<TokenId>(id));
    if (token.empty()) continue;
    std::uint32_t node = 0;
    for (const char c : token) {
      const auto byte = static_cast<unsigned char>(c);
      const std::uint32_t* const child = children_.find(node, byte);
      const auto next = child != nullptr ? *child : static_cast<std::uint32_t>(token_at_.size());
      if (child == nullptr) {
        children_.insert(node, byte, next, PairTable<std::uint32_t>::IfThere::kReplace);
        token_at_.push_back(kNoNode);
      }
      node = next;
    }
    token_at_[node] = static_cast<std::uint32_t>(id);
  }
}

void UnigramModel::offer(Node& node, TokenId id, double score, std::size_t begin) const {
  if (node.begin != kNoNode && !(score > node.score)) return;
  node = {id, score, static_cast<std::uint32_t>(begin)};
}

std::vector<ModelToken> UnigramModel::best_path(std::string_view piece, StopPoll& poll) const {
  std::vector<Node> ends(piece.size() + 1);
  for (std::size_t begin = 0; begin < piece.size();) {
    poll();
    const double score_here = ends[begin].score;
    const std::size_t character_end = begin + decode_utf8(piece, begin).size_bytes;
    bool covers_character = false;
    std::uint32_t node = 0;
    for (std::size_t end = begin + 1; end <= piece.size(); ++end) {
      const std::uint32_t* const child = children_.find(node, static_cast<unsigned char>(piece[end - 1]));
      if (child == nullptr) break;
      node = *child;
      const std::uint32_t id = token_at_[node];
      if (id == kNoNode) continue;
      offer(ends[end], id, scores_[id] + score_here, begin);
      covers_character = covers_character || end == character_end;
    }
    if (!covers_character) {
      if (!unk_id_) {
        throw FormatError(fmt::format("a character is not in the tokenizer's vocabulary, and it has no unk_id"));
      }
      offer(ends[character_end], *unk_id_, unknown_score_ + score_here, begin);
    }
    begin = character_end;
  }
  std::vector<ModelToken> backwards;
  for (std::size_t end = piece.size(); end > 0; end = ends[end].begin) {
    const ModelToken token{ends[end].id, ends[end].begin, static_cast<std::uint32_t>(end)};
    const bool fuses = !backwards.empty() && token.id == unk_id_ && backwards.back().id == unk_id_;
    if (fuses) {
      backwards.back().begin = token.begin;
    } else {
      backwards.push_back(token);
    }
  }
  std::vector<ModelToken> tokens;
  for (auto token = backwards.rbegin(); token != backwards.rend(); ++token) {
    if (token->id == unk_id_) {
      append_unknown(piece, {token->begin, token->end}, tokens);
    } else {
      tokens.push_back(*token);
    }
  }
  return tokens;
}

// The text of a run of unknown characters may be a token after all; else its bytes, where all of them have tokens.
void UnigramModel::append_unknown(std::string_view piece, ByteRange range, std::vector<ModelToken>& tokens) const {
  const std::string_view text = piece.substr(range.begin, range.end - range.begin);
  if (const auto id = vocabulary_.id_of(text)) return tokens.push_back({*id, range.begin, range.end});
  std::vector<ModelToken> bytes;
  for (std::size_t i = 0; byte_fallback_ && i < text.size(); ++i) {
    const auto id = vocabulary_.id_of(fmt::format("<0x{:02X}>", static_cast<unsigned char>(text[i])));
    if (!id) break;
    const auto at = range.begin + static_cast<std::uint32_t>(i);
    bytes.push_back({*id, at, at + 1});
  }
  if (bytes.size() == text.size()) {
    tokens.insert(tokens.end(), bytes.begin(), bytes.end());
  } else {
    tokens.push_back({*unk_id_, range.begin, range.end});
  }
}

}  // namespace

std::unique_ptr<const TokenModel> parse_unigram_model(const JsonView& view) {
  return std::make_unique<UnigramModel>(view);
}

}  // namespace sluice
