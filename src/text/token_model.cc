// SPDX-License-Identifier: Apache-2.0
#include "text/token_model.h"

#include <string>

namespace sluice {
namespace {

// Files from before models had a type are told apart by what they hold.
std::string model_type(const JsonView& view) {
  if (const auto type = view.find("type")) return type->string();
  if (view.find("merges")) return "BPE";
  if (view.find("unk_id")) return "Unigram";
  return view.find("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

}  // namespace

std::unique_ptr<const TokenModel> parse_token_model(const JsonView& view) {
  const std::string type = model_type(view);
  if (type == "BPE") return parse_bpe_model(view);
  if (type == "Unigram") return parse_unigram_model(view);
  if (type == "WordPiece") return parse_word_piece_model(view);
  if (type == "WordLevel") return parse_word_level_model(view);
  view.at("type").refuse("BPE, Unigram, WordPiece or WordLevel");
}

}  // namespace sluice
