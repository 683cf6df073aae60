// SPDX-License-Identifier: Apache-2.0
#include "text/aligned_text.h"

#include <fmt/format.h>

#include "base/error.h"

namespace sluice {

void require_bounded_growth(std::size_t num_bytes_before, std::size_t num_bytes_after) {
  if (num_bytes_after <= kMaxGrowth * num_bytes_before + kMaxGrowthSlackBytes) return;
  throw FormatError(
      fmt::format("the tokenizer's rules make a text of {} bytes more than {} times as long; its file is "
                  "damaged or hostile",
                  num_bytes_before, kMaxGrowth));
}

AlignedText::AlignedText(std::string_view text, std::size_t input_begin, Tracking tracking)
    : tracking_(tracking), text_(text) {
  if (tracking == Tracking::kOff) return;
  origins_.resize(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto at = static_cast<std::uint32_t>(input_begin + i);
    origins_[i] = {at, at + 1};
  }
}

void AlignedText::append(const AlignedText& other) {
  text_ += other.text_;
  origins_.insert(origins_.end(), other.origins_.begin(), other.origins_.end());
}

void TextRewriter::keep(std::size_t begin, std::size_t end) {
  to_.text_.append(from_.text_, begin, end - begin);
  if (from_.tracking_ == Tracking::kOff) return;
  const auto first = from_.origins_.begin();
  to_.origins_.insert(to_.origins_.end(), first + static_cast<std::ptrdiff_t>(begin),
                      first + static_cast<std::ptrdiff_t>(end));
}

void TextRewriter::replace(std::size_t begin, std::size_t end, std::string_view with) {
  to_.text_ += with;
  require_bounded_growth(from_.size(), to_.size());
  if (from_.tracking_ == Tracking::kOff) return;
  to_.origins_.insert(to_.origins_.end(), with.size(), from_.origin(begin, end));
}

void TextRewriter::insert(std::size_t at, std::string_view text) {
  to_.text_ += text;
  require_bounded_growth(from_.size(), to_.size());
  if (from_.tracking_ == Tracking::kOff) return;
  std::uint32_t place = 0;
  if (at < from_.size()) {
    place = from_.origins_[at].begin;
  } else if (!from_.origins_.empty()) {
    place = from_.origins_.back().end;
  }
  to_.origins_.insert(to_.origins_.end(), text.size(), ByteRange{place, place});
}

}  // namespace sluice
