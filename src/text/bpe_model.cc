// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_model.h"

#include <algorithm>
#include <queue>

#include <fmt/format.h>

#include "text/unicode_class.h"
#include "text/utf8.h"

namespace sluice {
namespace {

constexpr std::uint32_t kNoToken = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMaxMerges = 1 << 24;
// Shorter pieces are looked up in the cache as they are.
constexpr std::size_t kWorthCuttingBytes = 32;

std::string empty_or(const JsonView& view, std::string_view key) { return view.string_or(key, ""); }

std::size_t num_merges(const JsonView& view) {
  const std::size_t count = view.at("merges").size();
  if (count > kMaxMerges)
    view.at("merges").fail(fmt::format("has {} entries; at most {} are taken", count, kMaxMerges));
  return count;
}

}  // namespace

BpeModel::BpeModel(const JsonView& view)
    : vocabulary_(Vocabulary::parse(view.at("vocab"))),
      continuing_prefix_(empty_or(view, "continuing_subword_prefix")),
      end_suffix_(empty_or(view, "end_of_word_suffix")),
      fuse_unk_(view.boolean_or("fuse_unk", false)),
      byte_fallback_(view.boolean_or("byte_fallback", false)),
      ignore_merges_(view.boolean_or("ignore_merges", false)),
      byte_ids_(256),
      merges_(num_merges(view)),
      basic_plane_(0x10000, kNoToken),
      other_planes_(vocabulary_.num_tokens()),
      seams_(num_merges(view)) {
  if (const auto dropout = view.find("dropout"); dropout && dropout->value() != 0.0) {
    dropout->refuse("null: tokens that differ each time are not supported");
  }
  if (const auto unk = view.find("unk_token")) {
    unk_id_ = vocabulary_.id_of(unk->string());
    if (!unk_id_) unk->refuse("a token of the vocabulary");
  }
  for (unsigned byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary_.id_of(fmt::format("<0x{:02X}>", byte));
  find_characters();
  parse_merges(view.at("merges"));
}

void BpeModel::find_characters() {
  for (std::size_t id = 0; id < vocabulary_.id_limit(); ++id) {
    const std::string* const token = vocabulary_.token_of(static_cast<TokenId>(id));
    if (token == nullptr || token->empty()) continue;
    max_token_bytes_ = std::max(max_token_bytes_, token->size());
    const CodePoint point = decode_utf8(*token, 0);
    if (!point.valid || point.size_bytes != token->size()) continue;
    if (point.value < basic_plane_.size()) {
      basic_plane_[point.value] = static_cast<TokenId>(id);
    } else {
      other_planes_.insert(0, point.value, static_cast<TokenId>(id), PairTable<TokenId>::IfThere::kReplace);
    }
  }
}

void BpeModel::parse_merges(const JsonView& merges) {
  const auto& list = merges.value();
  // What merges join can be told from their last and first characters, unless symbols stand for something else.
  seams_known_ = continuing_prefix_.empty() && end_suffix_.empty();
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_string()) {
      const std::string& line = list[i].get_ref<const std::string&>();
      if (line.starts_with("#version")) continue;
      const std::size_t blank = line.find(' ');
      if (blank == std::string::npos || line.find(' ', blank + 1) != std::string::npos) {
        merges.element(i).refuse("two tokens with a blank between");
      }
      add_merge(merges, std::string_view(line).substr(0, blank), std::string_view(line).substr(blank + 1), rank);
    } else {
      const bool pair = list[i].is_array() && list[i].size() == 2 && list[i][0].is_string() && list[i][1].is_string();
      if (!pair) merges.element(i).refuse("a pair of tokens");
      add_merge(merges, list[i][0].get_ref<const std::string&>(), list[i][1].get_ref<const std::string&>(), rank);
    }
    ++rank;
  }
}

void BpeModel::add_merge(const JsonView& merges, std::string_view left, std::string_view right, std::uint32_t rank) {
  const auto need = [&](std::string_view token) {
    const auto id = vocabulary_.id_of(token);
    if (!id)
      merges.fail(fmt::format("merges '{}' and '{}', but '{}' is not in model.vocab", excerpt(left), excerpt(right),
                              excerpt(token)));
    return *id;
  };
  const TokenId left_id = need(left);
  const TokenId right_id = need(right);
  if (right.size() < continuing_prefix_.size())
    merges.fail(fmt::format("merges '{}', which is only a prefix", excerpt(right)));
  const TokenId result = need(std::string(left) + std::string(right.substr(continuing_prefix_.size())));
  merges_.insert(left_id, right_id, {rank, result}, PairTable<Merge>::IfThere::kReplace);
  const auto is_stand_in = [&](TokenId id, std::string_view token) {
    return id == unk_id_ || (byte_fallback_ && token.size() == 6 && token.starts_with("<0x"));
  };
  if (left.empty() || right.empty() || is_stand_in(left_id, left) || is_stand_in(right_id, right)) {
    seams_known_ = false;
  } else {
    seams_.insert(code_point_before(left, left.size()), decode_utf8(right, 0).value, 1,
                  PairTable<char>::IfThere::kKeep);
  }
}

std::optional<TokenId> BpeModel::character_id(char32_t character) const {
  if (character < basic_plane_.size()) {
    const std::uint32_t id = basic_plane_[character];
    return id == kNoToken ? std::nullopt : std::optional<TokenId>(id);
  }
  const TokenId* const id = other_planes_.find(0, character);
  return id == nullptr ? std::nullopt : std::optional<TokenId>(*id);
}

// Characters without a token may be fused with each other, so there is no cut beside them.
bool BpeModel::can_cut(char32_t before, char32_t after) const {
  return seams_.find(before, after) == nullptr && character_id(before) && character_id(after);
}

void BpeModel::encode(std::string_view piece, std::vector<ModelToken>& tokens, StopPoll& poll) const {
  if (ignore_merges_ && piece.size() <= max_token_bytes_) {
    if (const auto id = vocabulary_.id_of(piece)) {
      tokens.push_back({*id, 0, static_cast<std::uint32_t>(piece.size())});
      return;
    }
  }
  if (!seams_known_ || piece.size() <= kWorthCuttingBytes) return encode_word(piece, 0, tokens, poll);
  std::size_t begin = 0;
  CodePoint before = decode_utf8(piece, 0);
  for (std::size_t at = before.size_bytes; at < piece.size();) {
    poll();
    const CodePoint after = decode_utf8(piece, at);
    if (can_cut(before.value, after.value)) {
      encode_word(piece.substr(begin, at - begin), static_cast<std::uint32_t>(begin), tokens, poll);
      begin = at;
    }
    before = after;
    at += after.size_bytes;
  }
  encode_word(piece.substr(begin), static_cast<std::uint32_t>(begin), tokens, poll);
}

void BpeModel::encode_word(std::string_view word, std::uint32_t offset, std::vector<ModelToken>& tokens,
                           StopPoll& poll) const {
  if (cache_.find(word, offset, tokens)) return;
  std::vector<Symbol> symbols = spell(word, poll);
  merge(symbols, poll);
  std::vector<ModelToken> fresh;
  for (const Symbol& symbol : symbols) {
    if (!symbol.merged_away) fresh.push_back({symbol.id, symbol.begin, symbol.end});
  }
  for (const ModelToken& token : fresh) tokens.push_back({token.id, token.begin + offset, token.end + offset});
  cache_.add(word, std::move(fresh));
}

// Known characters as they are; others as bytes where all of their bytes have tokens; the rest as the unknown token,
// or not at all where there is none. A run of unknown characters is held until a known one comes.
std::vector<BpeModel::Symbol> BpeModel::spell(std::string_view word, StopPoll& poll) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  const auto add = [&](TokenId id, std::size_t begin, std::size_t end) {
    symbols.push_back({.id = id, .begin = static_cast<std::uint32_t>(begin), .end = static_cast<std::uint32_t>(end)});
  };
  std::size_t unknown_begin = 0;
  std::size_t unknown_end = 0;
  const auto add_unknown = [&] {
    if (unknown_begin < unknown_end) add(*unk_id_, unknown_begin, unknown_end);
    unknown_begin = unknown_end;
  };
  std::string spelled;
  for (std::size_t at = 0, end = 0; at < word.size(); at = end) {
    const CodePoint point = decode_utf8(word, at);
    end = at + point.size_bytes;
    poll();
    const std::string_view bytes = spelling(word, at, end, spelled);
    if (const auto id = bytes.size() == point.size_bytes ? character_id(point.value) : vocabulary_.id_of(bytes)) {
      add_unknown();
      add(*id, at, end);
    } else if (byte_fallback_ && all_have_byte_ids(bytes)) {
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        const std::size_t begin = std::min(at + i, end - 1);
        add(*byte_ids_[static_cast<unsigned char>(bytes[i])], begin, begin + 1);
      }
    } else if (unk_id_) {
      if (!fuse_unk_ || unknown_begin == unknown_end) {
        add_unknown();
        unknown_begin = at;
      }
      unknown_end = end;
    }
  }
  add_unknown();
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<std::int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<std::int32_t>(i + 1) : -1;
  }
  return symbols;
}

// Bytes [begin, end) of a word with the marks that some vocabularies put on the insides and ends of words.
std::string_view BpeModel::spelling(std::string_view word, std::size_t begin, std::size_t end,
                                    std::string& buffer) const {
  const bool continues = begin > 0 && !continuing_prefix_.empty();
  const bool ends = end == word.size() && !end_suffix_.empty();
  if (!continues && !ends) return word.substr(begin, end - begin);
  buffer = continues ? continuing_prefix_ : "";
  buffer += word.substr(begin, end - begin);
  if (ends) buffer += end_suffix_;
  return buffer;
}

bool BpeModel::all_have_byte_ids(std::string_view bytes) const {
  return std::all_of(bytes.begin(), bytes.end(),
                     [this](char c) { return byte_ids_[static_cast<unsigned char>(c)].has_value(); });
}

void BpeModel::merge(std::vector<Symbol>& symbols, StopPoll& poll) const {
  struct Candidate {
    std::uint32_t rank;
    std::int32_t place;
    TokenId result;
    bool operator<(const Candidate& other) const {  // the heap has the greatest on top: lowest rank, then leftmost
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::int32_t place) {
    poll();
    if (place < 0 || symbols[place].next < 0) return;
    const Merge* const found = merges_.find(symbols[place].id, symbols[symbols[place].next].id);
    if (found != nullptr) queue.push({found->rank, place, found->result});
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) consider(static_cast<std::int32_t>(i));
  while (!queue.empty()) {
    poll();  // most candidates left at the end are stale
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.place];
    if (left.merged_away || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    // Stale where a neighbour was merged since; a pair that gives the same token still counts.
    const Merge* const now = merges_.find(left.id, right.id);
    if (now == nullptr || now->result != top.result) continue;
    left.id = top.result;
    left.end = right.end;
    left.next = right.next;
    right.merged_away = true;
    if (left.next >= 0) symbols[left.next].previous = top.place;
    consider(left.previous);
    consider(top.place);
  }
}

std::unique_ptr<const TokenModel> parse_bpe_model(const JsonView& view) { return std::make_unique<BpeModel>(view); }

}  // namespace sluice
