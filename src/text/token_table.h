// SPDX-License-Identifier: Apache-2.0
// A tokenizer as the tables that other programs keep: every token by its id, what kind it is, and what joins them. Of
// byte-level BPE (GPT-2, Llama 3, Qwen) and of SentencePiece's BPE (Llama 2, Gemma); others are refused. Values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// The numbers are SentencePiece's, which GGUF took over.
enum class TokenKind : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

enum class TokenScheme : std::uint8_t { kByteLevelPairs, kSentencePieces };

struct TokenEntry {
  std::string text;
  TokenKind kind = TokenKind::kUnused;
  float score = 0;  // kSentencePieces: the pair whose token has the highest is joined first
};

struct TokenTable {
  TokenScheme scheme = TokenScheme::kByteLevelPairs;
  std::vector<TokenEntry> tokens;   // by id; holes are kUnused
  std::vector<std::string> merges;  // kByteLevelPairs: "left right", the first ranks highest
  // kByteLevelPairs: how text is cut into words, by the name that llama.cpp has for the pattern; "default" where it has
  // none.
  std::string word_split = "default";
};

// From tokenizer.model where there is one, else from tokenizer.json. Throws InvalidInput where there is neither or the
// tokenizer is of another kind, FormatError where it is damaged.
TokenTable read_token_table(const std::string& model_dir);

// What a hole or a row behind the last token is called.
TokenEntry unused_token(std::size_t id);

}  // namespace sluice
