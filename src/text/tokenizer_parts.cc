// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_parts.h"

#include <algorithm>

#include <fmt/format.h>

namespace sluice {

AlignedText TokenizerParts::normalize(AlignedText text) const {
  const std::size_t num_bytes = text.size();
  for (const auto& normalizer : normalizers) {
    text = normalizer->apply(std::move(text));
    require_bounded_growth(num_bytes, text.size());
  }
  return text;
}

std::optional<TokenId> TokenizerParts::id_of(std::string_view token) const {
  if (const auto id = added->id_of(token)) return id;
  return model->vocabulary().id_of(token);
}

std::optional<std::string> TokenizerParts::decoder_token(TokenId id) const {
  if (const AddedToken* const token = added->token_of(id)) return token->matched;
  const std::string* const token = model->vocabulary().token_of(id);
  if (token == nullptr) return std::nullopt;
  return *token;
}

std::size_t TokenizerParts::id_limit() const {
  std::size_t limit = model->vocabulary().id_limit();
  for (const AddedToken& token : added->all()) limit = std::max<std::size_t>(limit, token.id + std::size_t{1});
  return limit;
}

std::unique_ptr<TokenizerParts> parse_tokenizer_parts(const JsonView& document) {
  auto parts = std::make_unique<TokenizerParts>();
  if (const auto version = document.find("version"); version && version->string() != "1.0") {
    version->refuse("\"1.0\"");
  }
  parts->model = parse_token_model(document.at("model"));
  if (const auto view = document.find("normalizer")) parts->normalizers = parse_normalizers(*view);
  std::vector<AddedToken> added;
  if (const auto view = document.find("added_tokens")) added = AddedTokens::parse(*view, parts->model->vocabulary());
  parts->added = std::make_unique<AddedTokens>(std::move(added), [&](const std::string& content) {
    return parts->normalize(AlignedText(content, 0, Tracking::kOff)).text();
  });
  if (const auto view = document.find("pre_tokenizer")) parts->pre_tokenizers = parse_pre_tokenizers(*view);
  if (const auto view = document.find("post_processor")) parts->frame = parse_post_processor(*view, parts->id_limit());
  if (const auto view = document.find("decoder")) parts->decoder = TokenDecoder(*view);
  for (const auto& step : parts->pre_tokenizers)
    parts->needs_tracking = parts->needs_tracking || step->needs_tracking();
  return parts;
}

}  // namespace sluice
