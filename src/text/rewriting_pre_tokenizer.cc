// SPDX-License-Identifier: Apache-2.0
// Pre-tokenizers that rewrite text: bytes as characters (ByteLevel), blanks as a visible character (Metaspace).
#include <string>

#include "text/byte_alphabet.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

namespace sluice {
namespace {

// Writes every piece anew with `write(piece)`; tokens stay as they are.
template <typename Write>
void rewrite_pieces(SplitText& split, TextRewriter& rewriter, Write write) {
  for (TextPiece& piece : split.pieces) {
    const auto begin = static_cast<std::uint32_t>(rewriter.size());
    if (piece.is_token()) {
      rewriter.keep(piece.begin, piece.end);
    } else {
      write(piece);
    }
    piece.begin = begin;
    piece.end = static_cast<std::uint32_t>(rewriter.size());
  }
  split.text = rewriter.finish();
}

class PrefixSpace final : public PreTokenizer {
 public:
  void apply(SplitText& split) const override {
    TextRewriter rewriter(split.text);
    rewrite_pieces(split, rewriter, [&](const TextPiece& piece) {
      if (!split.view(piece).starts_with(' ')) rewriter.insert(piece.begin, " ");
      rewriter.keep(piece.begin, piece.end);
    });
  }
};

class ByteCharacters final : public PreTokenizer {
 public:
  void apply(SplitText& split) const override {
    TextRewriter rewriter(split.text);
    const std::string& old = split.text.text();
    rewrite_pieces(split, rewriter, [&](const TextPiece& piece) {
      for (std::size_t i = piece.begin; i < piece.end; ++i) {
        rewriter.replace(i, i + 1, byte_character(static_cast<unsigned char>(old[i])));
      }
    });
  }
};

enum class PrependScheme { kAlways, kFirst, kNever, kAlwaysEvenIfThere, kFirstEvenIfThere };

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme) : replacement_(std::move(replacement)), scheme_(scheme) {}

  bool needs_tracking() const override {
    return scheme_ == PrependScheme::kFirst || scheme_ == PrependScheme::kFirstEvenIfThere;
  }

  void apply(SplitText& split) const override {
    TextRewriter rewriter(split.text);
    const std::string& old = split.text.text();
    rewrite_pieces(split, rewriter, [&](const TextPiece& piece) {
      if (wants_prefix(split, piece)) rewriter.insert(piece.begin, replacement_);
      std::size_t done = piece.begin;
      while (true) {
        const std::size_t blank = std::min<std::size_t>(old.find(' ', done), piece.end);
        if (blank > done) rewriter.keep(done, blank);
        if (blank == piece.end) break;
        rewriter.replace(blank, blank + 1, replacement_);
        done = blank + 1;
      }
    });
  }

 private:
  bool wants_prefix(const SplitText& split, const TextPiece& piece) const {
    if (scheme_ == PrependScheme::kNever) return false;
    if (scheme_ == PrependScheme::kAlwaysEvenIfThere) return true;
    const std::string_view text = split.view(piece);
    const bool there = text.starts_with(' ') || text.starts_with(replacement_);
    if (scheme_ == PrependScheme::kAlways) return !there;
    if (split.text.origin(piece.begin, piece.end).begin != 0) return false;
    return scheme_ == PrependScheme::kFirstEvenIfThere || !there;
  }

  std::string replacement_;
  PrependScheme scheme_;
};

PrependScheme parse_scheme(const JsonView& view) {
  const auto scheme = view.find("prepend_scheme");
  const bool prefix_space = view.boolean_or("add_prefix_space", true);
  if (!scheme) return prefix_space ? PrependScheme::kAlways : PrependScheme::kNever;
  const std::string& name = scheme->string();
  if (name == "never") return PrependScheme::kNever;
  if (name != "always" && name != "first") scheme->refuse("always, first or never");
  if (!prefix_space) scheme->fail("asks for a prefix that add_prefix_space forbids");
  return name == "always" ? PrependScheme::kAlways : PrependScheme::kFirst;
}

}  // namespace

std::vector<std::unique_ptr<const PreTokenizer>> parse_rewriting_pre_tokenizer(std::string_view type,
                                                                               const JsonView& view) {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  if (type == "ByteLevel") {
    if (view.boolean_or("add_prefix_space", true)) steps.push_back(std::make_unique<PrefixSpace>());
    if (view.boolean_or("use_regex", true)) steps.push_back(make_gpt2_split());
    steps.push_back(std::make_unique<ByteCharacters>());
  } else if (type == "Metaspace") {
    const std::string replacement = view.at("replacement").character();
    steps.push_back(std::make_unique<Metaspace>(replacement, parse_scheme(view)));
    if (view.boolean_or("split", true)) {
      steps.push_back(make_literal_split(replacement, SplitBehavior::kMergedWithNext));
    }
  }
  return steps;
}

std::unique_ptr<const PreTokenizer> make_sentence_prefix(std::string blank, SentencePrefix prefix) {
  PrependScheme scheme = PrependScheme::kNever;
  if (prefix == SentencePrefix::kFirst) scheme = PrependScheme::kFirstEvenIfThere;
  if (prefix == SentencePrefix::kEach) scheme = PrependScheme::kAlwaysEvenIfThere;
  return std::make_unique<Metaspace>(std::move(blank), scheme);
}

}  // namespace sluice
