// SPDX-License-Identifier: Apache-2.0
#include "data/char_source.h"

#include <cerrno>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace sluice {
namespace {

constexpr std::size_t kReadBufferBytes = std::size_t{256} << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

CharSource::CharSource(std::istream& stream, std::string path, std::function<bool()> interrupted)
    : stream_(stream), path_(std::move(path)), interrupted_(std::move(interrupted)), buffer_(kReadBufferBytes) {
  fill();
  if (std::string_view(buffer_.data(), size_).starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

bool CharSource::fill() {
  if (interrupted_ && interrupted_()) throw Cancelled("stopped while the data was read; nothing was kept");
  base_bytes_ += size_;
  at_ = size_ = 0;
  if (!stream_.good()) return false;
  stream_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  if (stream_.bad()) throw IoError(EIO, fmt::format("cannot read {}: {}", path_, errno_text(EIO)));
  size_ = static_cast<std::size_t>(stream_.gcount());
  return size_ > 0;
}

void CharSource::skip_blanks() {
  for (int c = peek(); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = peek()) get();
}

void CharSource::skip_line() {
  for (int c = get(); c != kEnd && c != '\n'; c = get()) {
  }
}

}  // namespace sluice
