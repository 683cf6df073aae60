// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include <string>

#include <fmt/format.h>

#include "text/component_list.h"
#include "text/onig_pattern.h"
#include "text/piece_splitter.h"
#include "text/text_pattern.h"
#include "text/unicode_class.h"
#include "text/utf8.h"

namespace sluice {
namespace {

enum class Finds { kMatches, kGaps };

class Split final : public PreTokenizer {
 public:
  Split(TextPattern pattern, SplitBehavior behavior, Finds finds)
      : pattern_(std::move(pattern)), behavior_(behavior), finds_(finds) {}

  void apply(SplitText& split) const override {
    PatternSearch search(pattern_);
    const bool match_flag = finds_ == Finds::kMatches;
    split_pieces(split, behavior_, [&](std::string_view text, std::vector<FoundPart>& parts) {
      search.begin(text);
      std::size_t done = 0;
      while (const auto match = search.next()) {
        split.poll();
        if (done != match->begin) parts.push_back({done, match->begin, !match_flag});
        parts.push_back({match->begin, match->end, match_flag});
        done = match->end;
      }
      if (done != text.size()) parts.push_back({done, text.size(), !match_flag});
    });
  }

 private:
  TextPattern pattern_;
  SplitBehavior behavior_;
  Finds finds_;
};

// Cuts at single characters for which a question is answered with yes.
class CharacterSplit final : public PreTokenizer {
 public:
  using Question = bool (*)(char32_t);
  CharacterSplit(Question question, SplitBehavior behavior) : question_(question), behavior_(behavior) {}

  void apply(SplitText& split) const override {
    split_pieces(split, behavior_, [this](std::string_view text, std::vector<FoundPart>& parts) {
      std::size_t done = 0;
      for (std::size_t at = 0; at < text.size();) {
        const CodePoint point = decode_utf8(text, at);
        const std::size_t end = at + point.size_bytes;
        if (question_(point.value)) {
          if (done < at) parts.push_back({done, at, false});
          parts.push_back({at, end, true});
          done = end;
        }
        at = end;
      }
      if (done < text.size()) parts.push_back({done, text.size(), false});
    });
  }

 private:
  Question question_;
  SplitBehavior behavior_;
};

using PreTokenizers = std::vector<std::unique_ptr<const PreTokenizer>>;

void add_split(const JsonView& view, PreTokenizers& out) {
  out.push_back(std::make_unique<Split>(TextPattern::parse(view.at("pattern")),
                                        parse_split_behavior(view.at("behavior")),
                                        view.boolean_or("invert", false) ? Finds::kGaps : Finds::kMatches));
}

// GPT-2's own way to cut, which its byte-level pre-tokenizer has built in.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void add_one(const JsonView& view, PreTokenizers& out) {
  const std::string& type = view.at("type").string();
  const auto add_characters = [&](CharacterSplit::Question question, SplitBehavior behavior) {
    out.push_back(std::make_unique<CharacterSplit>(question, behavior));
  };
  if (type == "Split") return add_split(view, out);
  if (type == "Digits") {
    return add_characters(is_numeric, view.boolean_or("individual_digits", false) ? SplitBehavior::kIsolated
                                                                                  : SplitBehavior::kContiguous);
  }
  if (type == "Punctuation") {
    const auto behavior = view.find("behavior");
    return add_characters(is_punctuation, behavior ? parse_split_behavior(*behavior) : SplitBehavior::kIsolated);
  }
  if (type == "WhitespaceSplit") return add_characters(is_space, SplitBehavior::kRemoved);
  if (type == "BertPreTokenizer") {
    add_characters(is_space, SplitBehavior::kRemoved);
    return add_characters(is_punctuation, SplitBehavior::kIsolated);
  }
  if (type == "Whitespace") {
    const std::string pattern = fmt::format("[{0}]+|[^{0}{1}]+", rust_word_members(), space_members());
    out.push_back(
        std::make_unique<Split>(TextPattern(Regex::from_pcre(pattern)), SplitBehavior::kRemoved, Finds::kGaps));
    return;
  }
  if (type == "CharDelimiterSplit") {
    out.push_back(std::make_unique<Split>(TextPattern(view.at("delimiter").character()), SplitBehavior::kRemoved,
                                          Finds::kMatches));
    return;
  }
  auto rewriting = parse_rewriting_pre_tokenizer(type, view);
  if (!rewriting.empty()) {
    for (auto& one : rewriting) out.push_back(std::move(one));
    return;
  }
  view.at("type").refuse("the name of a pre-tokenizer that is supported");
}

}  // namespace

std::unique_ptr<const PreTokenizer> make_gpt2_split() {
  return std::make_unique<Split>(TextPattern(Regex::from_onig(kGpt2Pattern)), SplitBehavior::kIsolated,
                                 Finds::kMatches);
}

std::unique_ptr<const PreTokenizer> make_literal_split(std::string literal, SplitBehavior behavior) {
  return std::make_unique<Split>(TextPattern(std::move(literal)), behavior, Finds::kMatches);
}

PreTokenizers parse_pre_tokenizers(const JsonView& view) {
  PreTokenizers out;
  for (const JsonView& one : flatten_components(view, "pretokenizers")) add_one(one, out);
  return out;
}

}  // namespace sluice
