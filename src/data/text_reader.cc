// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "data/format_readers.h"
#include "text/utf8.h"

namespace sluice {
namespace {

// Long enough that a cut hardly matters, short enough to tokenize at once.
constexpr std::size_t kPartBytes = std::size_t{1} << 20;

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

// Behind the last blank line, else behind the last line, else between characters.
std::size_t TextReader::cut_at() const {
  const std::size_t paragraph = text_.rfind("\n\n");
  if (paragraph != std::string::npos) return paragraph + 2;
  const std::size_t line_end = text_.rfind('\n');
  if (line_end != std::string::npos) return line_end + 1;
  std::size_t at = text_.size();
  for (int i = 0; i < 4 && at > 1 && continues_character(text_[at - 1]); ++i) --at;
  return at > 1 ? at - 1 : text_.size();
}

std::optional<Row> TextReader::next(RowProblems& problems) {
  if (done_) return std::nullopt;
  const std::size_t part_bytes = std::min(kPartBytes, limits().max_row_bytes);
  while (text_.size() < part_bytes && source().peek() != CharSource::kEnd) {
    const int c = source().get();
    if (c == '\n' && !text_.empty() && text_.back() == '\r') text_.pop_back();
    text_.push_back(static_cast<char>(c));
  }
  done_ = source().peek() == CharSource::kEnd;
  const std::size_t end = done_ ? text_.size() : cut_at();
  std::string part = text_.substr(0, end);
  text_.erase(0, end);
  const std::uint64_t line = line_;
  line_ += static_cast<std::uint64_t>(std::count(part.begin(), part.end(), '\n'));
  if (!is_utf8(part)) {
    report(problems, line, "", "the text is not UTF-8; save the file as UTF-8");
    done_ = true;
    return std::nullopt;
  }
  const bool first = !started_;
  started_ = true;
  if (first && done_ && part.find_first_not_of(" \t\r\n") == std::string::npos) return std::nullopt;
  Row row{.value = RowJson::object(), .line = line, .part = TextPart{.first = first, .last = done_}};
  row.value["text"] = std::move(part);
  return row;
}

}  // namespace sluice
