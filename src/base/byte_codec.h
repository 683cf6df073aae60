// SPDX-License-Identifier: Apache-2.0
// Little-endian numbers and strings into bytes and back. The reader trusts nothing: every step is checked against what
// is left, and a count is checked against the bytes its items need before anything is allocated for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

class ByteWriter {
 public:
  void u32(std::uint32_t value);
  void u64(std::uint64_t value);
  void text(std::string_view value);  // length, then bytes

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  // `where` goes into the FormatError that every method may throw.
  ByteReader(std::span<const std::byte> bytes, std::string where) : rest_(bytes), where_(std::move(where)) {}

  std::uint32_t u32();
  std::uint64_t u64();
  std::string text();
  // A count of items that take at least `item_bytes` each.
  std::uint64_t count(std::uint64_t item_bytes);
  // Nothing may be left.
  bool at_end() const { return rest_.empty(); }
  void expect_end() const;

  [[noreturn]] void fail(std::string_view what) const;

 private:
  std::span<const std::byte> take(std::uint64_t size);

  std::span<const std::byte> rest_;
  std::string where_;
};

// A number at a fixed place of a block that is long enough.
std::uint64_t load_u64(std::span<const std::byte> bytes, std::size_t offset);
std::uint32_t load_u32(std::span<const std::byte> bytes, std::size_t offset);
void store_u64(std::span<std::byte> bytes, std::size_t offset, std::uint64_t value);
void store_u32(std::span<std::byte> bytes, std::size_t offset, std::uint32_t value);

}  // namespace sluice
