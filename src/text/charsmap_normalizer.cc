// SPDX-License-Identifier: Apache-2.0
// SentencePiece's compiled map of replacements, as `Precompiled` carries it in base64:
//
//   u32 trie_bytes | trie: u32 units of a double array (darts-clone) | texts, each ended by a zero byte
//
// A unit at `place` has, from bit 0: 8 bits label, 1 bit "has a leaf", 1 bit scale, 22 bits offset; its children stand
// at place ^ offset ^ label, and the child with label 0 is the leaf, whose low 31 bits are an offset into the texts.
#include <utf8proc.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/normalizer.h"
#include "text/utf8.h"

namespace sluice {
namespace {

std::optional<std::string> decode_base64(std::string_view text) {
  static constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int, 256> value_of{};
  value_of.fill(-1);
  for (std::size_t i = 0; i < kBase64Digits.size(); ++i)
    value_of[static_cast<unsigned char>(kBase64Digits[i])] = static_cast<int>(i);
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    const int value = value_of[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes.push_back(static_cast<char>((bits >> num_bits) & 0xFF));
    }
  }
  return bytes;
}

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

class CharsmapNormalizer final : public Normalizer {
 public:
  explicit CharsmapNormalizer(const JsonView& map) {
    const auto bytes = decode_base64(map.string());
    if (!bytes) map.fail("should be base64, but is not");
    if (bytes->size() < 4) map.fail("should hold a trie, but is too short");
    const std::size_t trie_bytes = read_u32(*bytes, 0);
    if (trie_bytes > bytes->size() - 4 || trie_bytes < 4 || trie_bytes % 4 != 0) {
      map.fail("announces a trie that its bytes do not hold");
    }
    for (std::size_t at = 4; at < 4 + trie_bytes; at += 4) units_.push_back(read_u32(*bytes, at));
    texts_ = bytes->substr(4 + trie_bytes);
    if (!is_utf8(texts_)) map.fail("replaces characters by bytes that are not UTF-8");
  }

  // Whole clusters first, where they are short, then single code points: what SentencePiece and its followers do.
  AlignedText apply(AlignedText text) const override {
    TextRewriter rewriter(text);
    const std::string& old = text.text();
    for (std::size_t begin = 0; begin < old.size();) {
      const std::size_t end = cluster_end(old, begin);
      const auto whole =
          end - begin < kMaxClusterBytes ? find(std::string_view(old).substr(begin, end - begin)) : std::nullopt;
      if (whole) {
        rewriter.replace(begin, end, *whole);
      } else {
        rewrite_points(old, begin, end, rewriter);
      }
      begin = end;
    }
    return rewriter.finish();
  }

 private:
  static constexpr std::size_t kMaxClusterBytes = 6;

  void rewrite_points(const std::string& old, std::size_t begin, std::size_t end, TextRewriter& rewriter) const {
    while (begin < end) {
      const std::size_t size_bytes = decode_utf8(old, begin).size_bytes;
      if (const auto fresh = find(std::string_view(old).substr(begin, size_bytes))) {
        rewriter.replace(begin, begin + size_bytes, *fresh);
      } else {
        rewriter.keep(begin, begin + size_bytes);
      }
      begin += size_bytes;
    }
  }

  static std::size_t cluster_end(const std::string& text, std::size_t at) {
    utf8proc_int32_t state = 0;
    CodePoint point = decode_utf8(text, at);
    at += point.size_bytes;
    while (at < text.size()) {
      const CodePoint next = decode_utf8(text, at);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(point.value),
                                           static_cast<utf8proc_int32_t>(next.value), &state)) {
        break;
      }
      at += next.size_bytes;
      point = next;
    }
    return at;
  }

  // The text for the shortest prefix of `key` that the map has, if any.
  std::optional<std::string_view> find(std::string_view key) const {
    std::size_t place = offset_of(units_[0]);
    for (const char c : key) {
      const auto label = static_cast<unsigned char>(c);
      if (label == 0) break;
      place ^= label;
      if (place >= units_.size() || (units_[place] & kLabelMask) != label) break;
      const std::uint32_t unit = units_[place];
      place ^= offset_of(unit);
      if ((unit & kHasLeaf) != 0) {
        if (place >= units_.size()) break;
        const std::size_t begin = units_[place] & kValueMask;
        if (begin > texts_.size()) break;
        const std::size_t end = std::min(texts_.find('\0', begin), texts_.size());
        const auto text = std::string_view(texts_).substr(begin, end - begin);
        if (!is_utf8(text)) break;
        return text;
      }
    }
    return std::nullopt;
  }

  static constexpr std::uint32_t kHasLeaf = 1U << 8;
  static constexpr std::uint32_t kLabelMask = (1U << 31) | 0xFF;
  static constexpr std::uint32_t kValueMask = (1U << 31) - 1;
  static std::size_t offset_of(std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & (1U << 9)) >> 6);
  }

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace

std::unique_ptr<const Normalizer> parse_charsmap_normalizer(std::string_view type, const JsonView& view) {
  if (type != "Precompiled") return nullptr;
  return std::make_unique<CharsmapNormalizer>(view.at("precompiled_charsmap"));
}

}  // namespace sluice
