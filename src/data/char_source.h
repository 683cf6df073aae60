// SPDX-License-Identifier: Apache-2.0
// The bytes of a stream one by one, with the line they stand on. Holds one buffer, borrows the stream. A byte order
// mark at the start is skipped. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <vector>

namespace sluice {

class CharSource {
 public:
  static constexpr int kEnd = -1;

  // `path` names the stream in errors. Throws IoError if it cannot be read, and Cancelled once `interrupted`, unless
  // empty, returns true: it is polled before every buffer.
  CharSource(std::istream& stream, std::string path, std::function<bool()> interrupted = {});

  int peek() { return at_ < size_ || fill() ? static_cast<unsigned char>(buffer_[at_]) : kEnd; }
  int get() {
    const int c = peek();
    if (c == kEnd) return c;
    ++at_;
    if (c == '\n') ++line_;
    return c;
  }
  void skip_blanks();  // of JSON: space, tab, line ends
  void skip_line();    // to behind the next line end

  std::uint64_t line() const { return line_; }  // of the next byte, from 1
  std::uint64_t offset_bytes() const { return base_bytes_ + at_; }
  const std::string& path() const { return path_; }

 private:
  bool fill();

  std::istream& stream_;
  std::string path_;
  std::function<bool()> interrupted_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::uint64_t base_bytes_ = 0;
  std::uint64_t line_ = 1;
};

}  // namespace sluice
