// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

namespace sluice {
namespace {

void require_text(std::string_view text) {
  // Places are 32 bits, in the text that rewriting has made longer too.
  static constexpr std::size_t kMaxTextBytes =
      std::numeric_limits<std::uint32_t>::max() / kMaxGrowth - kMaxGrowthSlackBytes;
  if (text.size() > kMaxTextBytes) {
    throw InvalidInput(
        fmt::format("a text of {} bytes is too long for one call of the tokenizer; cut it into parts of at "
                    "most {}",
                    text.size(), kMaxTextBytes));
  }
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) {
      throw InvalidInput(
          fmt::format("the text is not UTF-8: byte {} ({:#04x}) of {} does not belong to a character; "
                      "convert it first",
                      at, static_cast<unsigned char>(text[at]), text.size()));
    }
    at += point.size_bytes;
  }
}

SplitText cut_added_tokens(const TokenizerParts& parts, std::string_view text, Tracking tracking, StopPoll poll) {
  SplitText split{AlignedText(tracking), {}, poll};
  const auto append = [&](const AlignedText& part, std::size_t begin, std::size_t end, const AddedToken* token) {
    const auto base = static_cast<std::uint32_t>(split.text.size() - part.size());
    split.pieces.push_back({.begin = base + static_cast<std::uint32_t>(begin),
                            .end = base + static_cast<std::uint32_t>(end),
                            .token = token != nullptr ? token->id : TextPiece::kNoToken});
  };
  for (const AddedTokens::Part& raw : parts.added->cut(text, AddedTokens::Stage::kRaw)) {
    split.poll();
    AlignedText part(text.substr(raw.begin, raw.end - raw.begin), raw.begin, tracking);
    if (raw.token != nullptr) {
      split.text.append(part);
      append(part, 0, part.size(), raw.token);
      continue;
    }
    part = parts.normalize(std::move(part));
    split.text.append(part);
    for (const AddedTokens::Part& piece : parts.added->cut(part.text(), AddedTokens::Stage::kNormalized)) {
      append(part, piece.begin, piece.end, piece.token);
    }
  }
  return split;
}

// Calls `emit(id, text, begin, end)` for every token, with the bytes of the split text it covers.
template <typename Emit>
void encode_pieces(const TokenizerParts& parts, SplitText& split, Emit emit) {
  std::vector<ModelToken> tokens;
  for (const TextPiece& piece : split.pieces) {
    split.poll();
    if (piece.is_token()) {
      emit(piece.token, piece.begin, piece.end);
      continue;
    }
    tokens.clear();
    parts.model->encode(split.view(piece), tokens, split.poll);
    for (const ModelToken& token : tokens) emit(token.id, piece.begin + token.begin, piece.begin + token.end);
  }
}

SplitText split_into_words(const TokenizerParts& parts, std::string_view text, Tracking tracking,
                           const std::function<bool()>& interrupted) {
  require_text(text);
  SplitText split = cut_added_tokens(parts, text, tracking, StopPoll(interrupted));
  for (const auto& step : parts.pre_tokenizers) {
    step->apply(split);
    require_bounded_growth(text.size(), split.text.size());
  }
  return split;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, AddSpecial add_special,
                                       const std::function<bool()>& interrupted) const {
  SplitText split =
      split_into_words(*parts_, text, parts_->needs_tracking ? Tracking::kOn : Tracking::kOff, interrupted);
  std::vector<TokenId> ids;
  if (add_special == AddSpecial::kYes) ids = parts_->frame.before;
  encode_pieces(*parts_, split, [&](TokenId id, std::size_t, std::size_t) { ids.push_back(id); });
  if (add_special == AddSpecial::kYes) {
    ids.insert(ids.end(), parts_->frame.behind.begin(), parts_->frame.behind.end());
  }
  return ids;
}

Encoding Tokenizer::encode_with_ranges(std::string_view text, AddSpecial add_special,
                                       const std::function<bool()>& interrupted) const {
  SplitText split = split_into_words(*parts_, text, Tracking::kOn, interrupted);
  Encoding encoding;
  const auto put = [&](TokenId id, ByteRange range) {
    encoding.ids.push_back(id);
    encoding.ranges.push_back(range);
  };
  const auto end = static_cast<std::uint32_t>(text.size());
  if (add_special == AddSpecial::kYes) {
    for (const TokenId id : parts_->frame.before) put(id, {0, 0});
  }
  encode_pieces(*parts_, split, [&](TokenId id, std::size_t piece_begin, std::size_t piece_end) {
    put(id, split.text.origin(piece_begin, piece_end));
  });
  if (add_special == AddSpecial::kYes) {
    for (const TokenId id : parts_->frame.behind) put(id, {end, end});
  }
  return encoding;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, SkipSpecial skip_special) const {
  TokenStream stream(*this, skip_special);
  std::string text;
  for (const TokenId id : ids) text += stream.push(id);
  return text + stream.finish();
}

std::size_t Tokenizer::vocab_size() const { return parts_->id_limit(); }

std::optional<std::string> Tokenizer::token_of(TokenId id) const {
  if (const AddedToken* const token = parts_->added->token_of(id)) return token->content;
  return parts_->decoder_token(id);
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const { return parts_->id_of(token); }

bool Tokenizer::is_special(TokenId id) const {
  const AddedToken* const token = parts_->added->token_of(id);
  return token != nullptr && token->special;
}

std::optional<TokenId> Tokenizer::bos_id() const { return parts_->named.bos; }
std::optional<TokenId> Tokenizer::eos_id() const { return parts_->named.eos; }
std::optional<TokenId> Tokenizer::pad_id() const { return parts_->named.pad; }
std::optional<TokenId> Tokenizer::unk_id() const { return parts_->named.unk; }

TokenStream::TokenStream(const Tokenizer& tokenizer, SkipSpecial skip_special)
    : tokenizer_(tokenizer),
      skip_special_(skip_special),
      assembler_(std::make_unique<TextAssembler>(tokenizer.parts_->decoder)) {}

TokenStream::~TokenStream() = default;

std::string TokenStream::push(TokenId id) {
  if (skip_special_ == SkipSpecial::kYes && tokenizer_.is_special(id)) return "";
  auto token = tokenizer_.parts_->decoder_token(id);
  return token ? assembler_->push(std::move(*token)) : "";
}

std::string TokenStream::finish() { return assembler_->finish(); }

}  // namespace sluice
