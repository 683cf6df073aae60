// SPDX-License-Identifier: Apache-2.0
// A text on its way through a tokenizer that may know, for each byte, which bytes of the input it came from. Without
// tracking the ways back cost nothing. Owns its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_id.h"

namespace sluice {

// No rule of a real tokenizer multiplies text by more than 11 (U+FDFA in NFKC); a file could ask for anything.
constexpr std::size_t kMaxGrowth = 64;
constexpr std::size_t kMaxGrowthSlackBytes = 4096;
// Throws FormatError.
void require_bounded_growth(std::size_t num_bytes_before, std::size_t num_bytes_after);

enum class Tracking { kOff, kOn };

class AlignedText {
 public:
  explicit AlignedText(Tracking tracking) : tracking_(tracking) {}
  // A stretch of the input that begins at its byte `input_begin`.
  AlignedText(std::string_view text, std::size_t input_begin, Tracking tracking);

  Tracking tracking() const { return tracking_; }
  const std::string& text() const { return text_; }
  std::size_t size() const { return text_.size(); }
  // What bytes [begin, end) came from; begin < end. Only with tracking.
  ByteRange origin(std::size_t begin, std::size_t end) const { return {origins_[begin].begin, origins_[end - 1].end}; }

  void append(const AlignedText& other);

 private:
  friend class TextRewriter;

  Tracking tracking_;
  std::string text_;
  std::vector<ByteRange> origins_;  // one a byte, or none at all
};

// Writes a text anew from left to right; borrows the old one until finish().
class TextRewriter {
 public:
  explicit TextRewriter(const AlignedText& from) : from_(from), to_(from.tracking()) { to_.text_.reserve(from.size()); }

  std::size_t size() const { return to_.size(); }
  // Bytes [begin, end) as they are.
  void keep(std::size_t begin, std::size_t end);
  // Something else for bytes [begin, end), begin < end: all of it comes from all of them.
  void replace(std::size_t begin, std::size_t end, std::string_view with);
  // Something that stands before byte `at` and comes from nowhere.
  void insert(std::size_t at, std::string_view text);
  AlignedText finish() { return std::move(to_); }

 private:
  const AlignedText& from_;
  AlignedText to_;
};

}  // namespace sluice
