// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, as a model's own files say: tokenizer.json (Hugging Face tokenizers, same ids) or
// tokenizer.model (SentencePiece). Const use is safe from many threads. Does not know chat templates.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_id.h"

namespace sluice {

struct TokenizerParts;
class TextAssembler;

enum class AddSpecial { kNo, kYes };   // the tokens that a model wants around every text, such as <s>
enum class SkipSpecial { kNo, kYes };  // leave special tokens out of decoded text

struct Encoding {
  std::vector<TokenId> ids;
  // What bytes of the text each token came from. Neighbours share bytes only where one character became several
  // tokens in normalization; added special tokens have none (begin == end).
  std::vector<ByteRange> ranges;
};

class Tokenizer {
 public:
  explicit Tokenizer(std::unique_ptr<const TokenizerParts> parts);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer();

  // Throws InvalidInput if the text is not UTF-8, and Cancelled once `interrupted`, unless empty, returns true; it is
  // polled now and then.
  std::vector<TokenId> encode(std::string_view text, AddSpecial add_special,
                              const std::function<bool()>& interrupted = {}) const;
  Encoding encode_with_ranges(std::string_view text, AddSpecial add_special,
                              const std::function<bool()>& interrupted = {}) const;
  // Ids without a token give nothing. What the tokens do not spell in UTF-8 becomes U+FFFD.
  std::string decode(std::span<const TokenId> ids, SkipSpecial skip_special) const;

  std::size_t vocab_size() const;  // one more than the greatest id
  std::optional<std::string> token_of(TokenId id) const;
  std::optional<TokenId> id_of(std::string_view token) const;
  bool is_special(TokenId id) const;
  // As tokenizer_config.json or tokenizer.model name them; nothing where they do not, or name no token.
  std::optional<TokenId> bos_id() const;
  std::optional<TokenId> eos_id() const;
  std::optional<TokenId> pad_id() const;
  std::optional<TokenId> unk_id() const;

 private:
  friend class TokenStream;

  std::unique_ptr<const TokenizerParts> parts_;
};

// Text of tokens that come one by one. All that push() and finish() return is what decode() makes of the ids together.
// Borrows the tokenizer. One thread at a time.
class TokenStream {
 public:
  TokenStream(const Tokenizer& tokenizer, SkipSpecial skip_special);
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;
  ~TokenStream();

  // The text that is certain now; empty while a character is incomplete.
  std::string push(TokenId id);
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  SkipSpecial skip_special_;
  std::unique_ptr<TextAssembler> assembler_;
};

// The file of a folder that its tokenizer is made from: tokenizer.json, else tokenizer.model, else vocab.json (which
// merges.txt belongs to); nothing where there is none.
std::optional<std::string> find_tokenizer_file(const std::string& model_dir);

// From that file, with tokenizer_config.json and others where they are there. Throws InvalidInput where the folder has
// none, IoError, and FormatError that names file and key.
std::unique_ptr<const Tokenizer> load_tokenizer(const std::string& model_dir);

// From the bytes of a tokenizer.json; `where` names them in failures.
std::unique_ptr<const Tokenizer> parse_tokenizer(std::string_view json, const std::string& where);

}  // namespace sluice
