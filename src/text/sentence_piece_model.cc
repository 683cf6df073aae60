// SPDX-License-Identifier: Apache-2.0
// tokenizer.model: SentencePiece's own library behind the parts of a tokenizer, the way Llama's tokenizer uses it: the
// blank in front of a text is put there once, not by the library in front of every stretch between special tokens. A
// model that takes blanks away would take that one too: there the library puts it back where a stretch begins with one.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "text/sentence_piece_load.h"
#include "text/tokenizer_parts.h"

namespace sluice {
namespace {

// Protocol buffers merge a message that comes twice: this is ModelProto.normalizer_spec.add_dummy_prefix = false.
constexpr std::string_view kNoDummyPrefix("\x1A\x02\x18\x00", 4);
constexpr std::string_view kPieceBlank = "\u2581";

class SentencePieceModel final : public TokenModel {
 public:
  SentencePieceModel(std::string_view model, const std::string& where) : blanks_(read_sentence_blanks(model, where)) {
    std::string proto(model);
    proto += kNoDummyPrefix;
    processor_ = load_sentence_pieces(proto, where);
    if (blanks_.are_single && blanks_.has_prefix) prefixing_ = load_sentence_pieces(model, where);
    std::vector<std::string> pieces;
    pieces.reserve(static_cast<std::size_t>(processor_->GetPieceSize()));
    for (int id = 0; id < processor_->GetPieceSize(); ++id) pieces.push_back(processor_->IdToPiece(id));
    vocabulary_ = Vocabulary::from_list(std::move(pieces));
  }

  const sentencepiece::SentencePieceProcessor& processor() const { return *processor_; }
  const SentenceBlanks& blanks() const { return blanks_; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void encode(std::string_view piece, std::vector<ModelToken>& tokens, StopPoll& /*poll*/) const override {
    std::vector<int> ids;
    const bool is_prefixed = prefixing_ != nullptr && piece.starts_with(' ');
    const auto status = (is_prefixed ? prefixing_ : processor_)->Encode(piece, &ids);
    if (!status.ok()) throw FormatError(fmt::format("SentencePiece refused a text: {}", status.ToString()));
    const std::size_t first = tokens.size();
    const auto size_bytes = static_cast<std::uint32_t>(piece.size());
    std::size_t at = 0;
    bool exact = true;
    for (const int id : ids) {
      const std::size_t token_bytes = bytes_at(piece, at, id);
      exact = exact && token_bytes > 0;
      tokens.push_back(
          {static_cast<TokenId>(id), static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + token_bytes)});
      at += token_bytes;
    }
    if (blanks_.are_single) at = std::min(piece.find_first_not_of(' ', at), piece.size());
    if (exact && at == piece.size()) return;
    // Normalization has changed the text: each token may come from anywhere in it.
    for (std::size_t i = first; i < tokens.size(); ++i) tokens[i] = {tokens[i].id, 0, size_bytes};
  }

 private:
  // How much of the text the token spells; 0 where it does not spell what stands there.
  std::size_t bytes_at(std::string_view piece, std::size_t at, int id) const {
    if (at >= piece.size()) return 0;
    if (processor_->IsByte(id)) return 1;
    const std::string& token = processor_->IdToPiece(id);
    if (blanks_.are_single) return spelled_bytes(piece.substr(at), token);
    return piece.substr(at).starts_with(token) ? token.size() : 0;
  }

  // The same where a blank of the token stands for all that follow each other in the text.
  static std::size_t spelled_bytes(std::string_view text, std::string_view token) {
    std::size_t at = 0;
    while (!token.empty()) {
      if (token.starts_with(kPieceBlank)) {
        const std::size_t end = std::min(text.find_first_not_of(' ', at), text.size());
        if (end == at) return 0;
        at = end;
        token.remove_prefix(kPieceBlank.size());
      } else {
        if (at == text.size() || text[at] != token.front()) return 0;
        ++at;
        token.remove_prefix(1);
      }
    }
    return at;
  }

  SentenceBlanks blanks_;
  std::unique_ptr<const sentencepiece::SentencePieceProcessor> processor_;  // puts no blank in front
  std::unique_ptr<const sentencepiece::SentencePieceProcessor> prefixing_;  // does, if blanks are taken away
  Vocabulary vocabulary_;
};

std::optional<TokenId> id_if_any(int id) {
  return id < 0 ? std::nullopt : std::optional<TokenId>(static_cast<TokenId>(id));
}

}  // namespace

std::unique_ptr<TokenizerParts> make_sentence_piece_parts(std::string_view model, const std::string& where,
                                                          SentencePrefix prefix) {
  auto parts = std::make_unique<TokenizerParts>();
  auto pieces = std::make_unique<const SentencePieceModel>(model, where);
  const auto& processor = pieces->processor();
  std::vector<AddedToken> added;
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    if (!processor.IsControl(id) && !processor.IsUnknown(id)) continue;
    if (processor.IdToPiece(id).empty()) continue;
    added.push_back({.id = static_cast<TokenId>(id), .content = processor.IdToPiece(id), .special = true});
  }
  parts->named = {.bos = id_if_any(processor.bos_id()),
                  .eos = id_if_any(processor.eos_id()),
                  .pad = id_if_any(processor.pad_id()),
                  .unk = id_if_any(processor.unk_id())};
  if (parts->named.bos) parts->frame.before.push_back(*parts->named.bos);
  const SentenceBlanks blanks = pieces->blanks();
  parts->model = std::move(pieces);
  parts->added = std::make_unique<AddedTokens>(std::move(added), [](const std::string& content) { return content; });
  if (!blanks.has_prefix) prefix = SentencePrefix::kNone;
  parts->pre_tokenizers.push_back(make_sentence_prefix(blanks.are_single ? " " : std::string(kPieceBlank), prefix));
  parts->needs_tracking = true;
  parts->decoder = TokenDecoder::for_sentence_pieces(prefix);
  return parts;
}

}  // namespace sluice
