// SPDX-License-Identifier: Apache-2.0
// Normal forms, case, accents, and the mixtures of them that BERT and NMT models use.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/normalizer.h"
#include "text/unicode_class.h"
#include "text/utf8.h"

namespace sluice {
namespace {

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

// A code point that no normal form joins with what stands before it: not a mark, not a Hangul vowel or final. U+11A7 is
// none, though utf8proc joins it with a syllable, where it is lost.
bool starts_segment_itself(char32_t c) {
  if (c < 0x300 || c == 0x11A7) return true;
  return !is_mark(c) && !(c >= 0x1160 && c <= 0x11FF) &&
         utf8proc_get_property(static_cast<int>(c))->combining_class == 0;
}

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Marks in the order of their classes, as every normal form has them. utf8proc's own way takes the square of their
// number.
void order_marks(std::vector<utf8proc_int32_t>& points) {
  const auto is_mark_of_class = [](utf8proc_int32_t c) { return combining_class(c) != 0; };
  for (auto begin = points.begin(); begin != points.end();) {
    begin = std::find_if(begin, points.end(), is_mark_of_class);
    const auto end = std::find_if_not(begin, points.end(), is_mark_of_class);
    std::stable_sort(begin, end, [](utf8proc_int32_t left, utf8proc_int32_t right) {
      return combining_class(left) < combining_class(right);
    });
    begin = end;
  }
}

class NormalForm final : public Normalizer {
 public:
  explicit NormalForm(int options) : options_(static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE)) {}

  // Segment by segment, so that each byte's origin stays as narrow as it can be.
  AlignedText apply(AlignedText text) const override {
    const std::string& old = text.text();
    if (is_ascii(old)) return text;
    TextRewriter rewriter(text);
    std::vector<utf8proc_int32_t> points;
    std::string fresh;
    for (std::size_t begin = 0; begin < old.size();) {
      CodePoint point = decode_utf8(old, begin);
      const bool plain = point.value < 0xA0;
      std::size_t end = begin + point.size_bytes;
      std::size_t num_points = 1;
      while (end < old.size()) {
        point = decode_utf8(old, end);
        if (starts_segment(point.value)) break;
        end += point.size_bytes;
        ++num_points;
      }
      if (plain && num_points == 1) {
        rewriter.keep(begin, end);
      } else {
        rewrite_segment(std::string_view(old).substr(begin, end - begin), points, fresh);
        if (old.compare(begin, end - begin, fresh) == 0) {
          rewriter.keep(begin, end);
        } else {
          rewriter.replace(begin, end, fresh);
        }
      }
      begin = end;
    }
    return rewriter.finish();
  }

 private:
  // What a code point decomposes to may join with what stands before: half-width sound marks, Hangul letters.
  bool starts_segment(char32_t c) const {
    if (c < 0x300) return true;
    if (utf8proc_get_property(static_cast<int>(c))->decomp_seqindex == UINT16_MAX) return starts_segment_itself(c);
    std::array<utf8proc_int32_t, kMostParts> parts{};
    const utf8proc_ssize_t count =
        decompose_point(c, parts, static_cast<utf8proc_option_t>(options_ | UTF8PROC_DECOMPOSE));
    return starts_segment_itself(count > 0 ? static_cast<char32_t>(parts[0]) : c);
  }

  static constexpr std::size_t kMostParts = 32;  // U+FDFA has 18
  static utf8proc_ssize_t decompose_point(char32_t c, std::array<utf8proc_int32_t, kMostParts>& parts,
                                          utf8proc_option_t options) {
    int last_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<int>(c), parts.data(), parts.size(), options, &last_class);
    CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()), "a code point has few parts");
    return count;
  }

  void rewrite_segment(std::string_view segment, std::vector<utf8proc_int32_t>& points, std::string& fresh) const {
    points.clear();
    for (std::size_t at = 0; at < segment.size();) {
      const CodePoint point = decode_utf8(segment, at);
      std::array<utf8proc_int32_t, kMostParts> parts{};
      const utf8proc_ssize_t count = decompose_point(point.value, parts, options_);
      points.insert(points.end(), parts.begin(), parts.begin() + count);
      at += point.size_bytes;
    }
    order_marks(points);
    const utf8proc_ssize_t num_points =
        utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()), options_);
    CHECK(num_points >= 0, "normal forms exist for all code points");
    fresh.clear();
    for (utf8proc_ssize_t i = 0; i < num_points; ++i) append_utf8(fresh, static_cast<char32_t>(points[i]));
  }

  utf8proc_option_t options_;
};

// One code point at a time: what `rewrite` appends takes its place.
template <typename Rewrite>
AlignedText rewrite_points(const AlignedText& text, Rewrite rewrite) {
  TextRewriter rewriter(text);
  std::string fresh;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text.text(), at);
    fresh.clear();
    rewrite(point.value, fresh);
    rewriter.replace(at, at + point.size_bytes, fresh);
    at += point.size_bytes;
  }
  return rewriter.finish();
}

void append_lower_point(char32_t c, std::string& out) {
  if (c == 0x130) {
    out += "i\xCC\x87";
  } else {
    append_utf8(out, to_lower(c));
  }
}

class Lowercase final : public Normalizer {
 public:
  AlignedText apply(AlignedText text) const override { return rewrite_points(text, append_lower_point); }
};

class StripAccents final : public Normalizer {
 public:
  AlignedText apply(AlignedText text) const override {
    return rewrite_points(text, [](char32_t c, std::string& out) {
      if (!is_mark(c)) append_utf8(out, c);
    });
  }
};

class Nmt final : public Normalizer {
 public:
  AlignedText apply(AlignedText text) const override {
    return rewrite_points(text, [](char32_t c, std::string& out) {
      if (is_dropped(c)) return;
      append_utf8(out, is_blank(c) ? U' ' : c);
    });
  }

 private:
  static bool is_dropped(char32_t c) {
    return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  }
  static bool is_blank(char32_t c) {
    return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  }
};

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const JsonView& view)
      : clean_text_(view.boolean_or("clean_text", true)),
        handle_chinese_(view.boolean_or("handle_chinese_chars", true)),
        lowercase_(view.boolean_or("lowercase", true)),
        strip_accents_(view.boolean_or("strip_accents", lowercase_)),
        decompose_(UTF8PROC_DECOMPOSE) {}

  AlignedText apply(AlignedText text) const override {
    if (clean_text_) text = rewrite_points(text, clean);
    if (handle_chinese_) text = rewrite_points(text, space_out);
    if (strip_accents_) {
      text = rewrite_points(decompose_.apply(std::move(text)), [](char32_t c, std::string& out) {
        if (!is_nonspacing_mark(c)) append_utf8(out, c);
      });
    }
    if (lowercase_) text = rewrite_points(text, append_lower_point);
    return text;
  }

 private:
  static void clean(char32_t c, std::string& out) {
    const bool blank = c == '\t' || c == '\n' || c == '\r';
    if (c == 0 || c == 0xFFFD || (!blank && is_control(c))) return;
    append_utf8(out, blank || is_space(c) ? U' ' : c);
  }
  static void space_out(char32_t c, std::string& out) {
    if (is_cjk_ideograph(c)) out += ' ';
    append_utf8(out, c);
    if (is_cjk_ideograph(c)) out += ' ';
  }

  bool clean_text_;
  bool handle_chinese_;
  bool lowercase_;
  bool strip_accents_;
  NormalForm decompose_;
};

}  // namespace

std::unique_ptr<const Normalizer> parse_unicode_normalizer(std::string_view type, const JsonView& view) {
  if (type == "NFC") return std::make_unique<NormalForm>(UTF8PROC_COMPOSE);
  if (type == "NFD") return std::make_unique<NormalForm>(UTF8PROC_DECOMPOSE);
  if (type == "NFKC") return std::make_unique<NormalForm>(UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
  if (type == "NFKD") return std::make_unique<NormalForm>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "BertNormalizer") return std::make_unique<BertNormalizer>(view);
  return nullptr;
}

}  // namespace sluice
