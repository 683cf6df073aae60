// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/units.h"
#include "text/unicode_class.h"
#include "text/utf8.h"

namespace sluice {
namespace {

std::size_t total_bytes(const std::vector<std::string>& words) {
  std::size_t total = 0;
  for (const std::string& word : words) total += word.size();
  return total;
}

std::vector<std::uint32_t> indices(const std::vector<AddedToken>& tokens, bool normalized) {
  std::vector<std::uint32_t> chosen;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].normalized == normalized) chosen.push_back(static_cast<std::uint32_t>(i));
  }
  return chosen;
}

std::vector<std::string> words(const std::vector<AddedToken>& tokens, const std::vector<std::uint32_t>& chosen) {
  std::vector<std::string> words;
  words.reserve(chosen.size());
  for (const std::uint32_t idx : chosen) words.push_back(tokens[idx].matched);
  return words;
}

std::vector<AddedToken> normalize_all(std::vector<AddedToken> tokens, const AddedTokens::Normalize& normalize) {
  for (AddedToken& token : tokens) token.matched = token.normalized ? normalize(token.content) : token.content;
  return tokens;
}

bool stands_alone(std::string_view text, const WordFinder::Found& found) {
  const bool joined_left = found.begin > 0 && is_word_character(code_point_before(text, found.begin));
  const bool joined_right = found.end < text.size() && is_word_character(decode_utf8(text, found.end).value);
  return !joined_left && !joined_right;
}

}  // namespace

WordFinder::WordFinder(const std::vector<std::string>& words) : children_(total_bytes(words)), ends_(1, kNone) {
  for (std::size_t idx = 0; idx < words.size(); ++idx) {
    if (words[idx].empty()) continue;
    std::uint32_t node = 0;
    for (const char c : words[idx]) {
      const auto byte = static_cast<unsigned char>(c);
      const std::uint32_t* const child = children_.find(node, byte);
      const auto next = child != nullptr ? *child : static_cast<std::uint32_t>(ends_.size());
      if (child == nullptr) {
        children_.insert(node, byte, next, PairTable<std::uint32_t>::IfThere::kReplace);
        ends_.push_back(kNone);
      }
      node = next;
    }
    ends_[node] = static_cast<std::uint32_t>(idx);
    first_bytes_[static_cast<unsigned char>(words[idx][0])] = true;
  }
}

std::optional<WordFinder::Found> WordFinder::find(std::string_view text, std::size_t from) const {
  if (empty()) return std::nullopt;
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!first_bytes_[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<Found> longest;
    std::uint32_t node = 0;
    for (std::size_t end = begin + 1; end <= text.size(); ++end) {
      const std::uint32_t* const child = children_.find(node, static_cast<unsigned char>(text[end - 1]));
      if (child == nullptr) break;
      node = *child;
      if (ends_[node] != kNone) longest = Found{begin, end, ends_[node]};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize)
    : tokens_(normalize_all(std::move(tokens), normalize)),
      raw_(indices(tokens_, false)),
      normalized_(indices(tokens_, true)),
      raw_finder_(words(tokens_, raw_)),
      normalized_finder_(words(tokens_, normalized_)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    by_id_.insert_or_assign(tokens_[i].id, static_cast<std::uint32_t>(i));
    by_content_.insert_or_assign(tokens_[i].content, static_cast<std::uint32_t>(i));
  }
}

std::vector<AddedToken> AddedTokens::parse(const JsonView& view, const Vocabulary& vocabulary) {
  if (view.size() > kMaxAddedTokens)
    view.fail(fmt::format("has {} tokens; at most {} are taken", view.size(), kMaxAddedTokens));
  std::vector<AddedToken> tokens;
  std::unordered_map<std::string, std::size_t> known;
  // Tokens that the vocabulary lacks are numbered on from its end.
  std::size_t next_id = vocabulary.num_tokens();
  std::size_t added_bytes = 0;
  for (std::size_t i = 0; i < view.size(); ++i) {
    const JsonView entry = view.element(i);
    AddedToken token{.content = entry.at("content").string(),
                     .single_word = entry.boolean_or("single_word", false),
                     .lstrip = entry.boolean_or("lstrip", false),
                     .rstrip = entry.boolean_or("rstrip", false),
                     .normalized = entry.boolean_or("normalized", true),
                     .special = entry.boolean_or("special", false)};
    if (token.content.empty()) continue;
    added_bytes += token.content.size();
    if (added_bytes > kMaxAddedBytes)
      view.fail(fmt::format("has tokens of more than {}", format_bytes(kMaxAddedBytes)));
    if (token.content.size() > kMaxAddedTokenBytes)
      entry.fail(fmt::format("is a token of more than {} bytes", kMaxAddedTokenBytes));
    const auto seen = known.find(token.content);
    const auto in_model = vocabulary.id_of(token.content);
    std::size_t id = next_id;
    if (seen != known.end()) {
      id = tokens[seen->second].id;
    } else if (in_model) {
      id = *in_model;
    } else {
      ++next_id;
    }
    if (const auto stated = entry.find("id"); stated && stated->number_below(1ULL << 32) != id) {
      stated->refuse(
          fmt::format("{}, the id that '{}' has in the vocabulary or gets behind it", id, excerpt(token.content)));
    }
    token.id = static_cast<TokenId>(id);
    if (seen != known.end()) {
      tokens[seen->second] = std::move(token);
    } else {
      known.emplace(token.content, tokens.size());
      tokens.push_back(std::move(token));
    }
  }
  return tokens;
}

std::vector<AddedTokens::Part> AddedTokens::cut(std::string_view text, Stage stage) const {
  const WordFinder& finder = stage == Stage::kRaw ? raw_finder_ : normalized_finder_;
  const std::vector<std::uint32_t>& chosen = stage == Stage::kRaw ? raw_ : normalized_;
  std::vector<Part> parts;
  std::size_t done = 0;
  for (auto found = finder.find(text, 0); found; found = finder.find(text, found->end)) {
    const AddedToken& token = tokens_[chosen[found->word_idx]];
    if (token.single_word && !stands_alone(text, *found)) continue;
    std::size_t begin = std::max(found->begin, done);
    std::size_t end = found->end;
    if (token.lstrip) begin -= trailing_space_bytes(text.substr(done, begin - done));
    if (token.rstrip) {
      end = std::max(end, done);  // the space before it was stripped for another
      end += leading_space_bytes(text.substr(end));
    }
    if (done < begin) parts.push_back({done, begin, nullptr});
    if (begin < end) parts.push_back({begin, end, &token});
    done = std::max(done, end);
  }
  if (done < text.size()) parts.push_back({done, text.size(), nullptr});
  return parts;
}

std::optional<TokenId> AddedTokens::id_of(std::string_view content) const {
  const auto found = by_content_.find(content);
  if (found == by_content_.end()) return std::nullopt;
  return tokens_[found->second].id;
}

const AddedToken* AddedTokens::token_of(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace sluice
