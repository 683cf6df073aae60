// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include <string>

#include <fmt/format.h>

#include "text/byte_alphabet.h"
#include "text/component_list.h"
#include "text/text_pattern.h"
#include "text/unicode_class.h"

namespace sluice {
namespace {

class Replace final : public Normalizer {
 public:
  Replace(TextPattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  AlignedText apply(AlignedText text) const override {
    PatternSearch search(pattern_);
    search.begin(text.text());
    auto match = search.next();
    if (!match) return text;
    TextRewriter rewriter(text);
    std::size_t done = 0;
    for (; match; match = search.next()) {
      rewriter.keep(done, match->begin);
      if (match->begin == match->end) {
        rewriter.insert(match->begin, content_);
      } else {
        rewriter.replace(match->begin, match->end, content_);
      }
      done = match->end;
    }
    rewriter.keep(done, text.size());
    return rewriter.finish();
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}

  AlignedText apply(AlignedText text) const override {
    if (text.size() == 0) return text;
    TextRewriter rewriter(text);
    rewriter.insert(0, prefix_);
    rewriter.keep(0, text.size());
    return rewriter.finish();
  }

 private:
  std::string prefix_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  AlignedText apply(AlignedText text) const override {
    const std::size_t begin = left_ ? leading_space_bytes(text.text()) : 0;
    const std::size_t end =
        begin == text.size() || !right_ ? text.size() : text.size() - trailing_space_bytes(text.text());
    TextRewriter rewriter(text);
    rewriter.keep(begin, end);
    return rewriter.finish();
  }

 private:
  bool left_;
  bool right_;
};

class ByteLevel final : public Normalizer {
 public:
  AlignedText apply(AlignedText text) const override {
    TextRewriter rewriter(text);
    for (std::size_t i = 0; i < text.size(); ++i) {
      rewriter.replace(i, i + 1, byte_character(static_cast<unsigned char>(text.text()[i])));
    }
    return rewriter.finish();
  }
};

std::unique_ptr<const Normalizer> parse_one(const JsonView& view) {
  const std::string& type = view.at("type").string();
  if (type == "Replace") {
    return std::make_unique<Replace>(TextPattern::parse(view.at("pattern")), view.at("content").string());
  }
  if (type == "Prepend") return std::make_unique<Prepend>(view.at("prepend").string());
  if (type == "Strip") {
    return std::make_unique<Strip>(view.boolean_or("strip_left", true), view.boolean_or("strip_right", true));
  }
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  if (auto normalizer = parse_unicode_normalizer(type, view)) return normalizer;
  if (auto normalizer = parse_charsmap_normalizer(type, view)) return normalizer;
  view.at("type").refuse("the name of a normalizer that is supported");
}

}  // namespace

std::vector<std::unique_ptr<const Normalizer>> parse_normalizers(const JsonView& view) {
  std::vector<std::unique_ptr<const Normalizer>> normalizers;
  for (const JsonView& one : flatten_components(view, "normalizers")) normalizers.push_back(parse_one(one));
  return normalizers;
}

}  // namespace sluice
