// SPDX-License-Identifier: Apache-2.0
#include "base/byte_codec.h"

#include <bit>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"

namespace sluice {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so is every machine we run on");

std::uint64_t load_u64(std::span<const std::byte> bytes, std::size_t offset) {
  CHECK(offset + sizeof(std::uint64_t) <= bytes.size(), "the number lies in the block");
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::uint32_t load_u32(std::span<const std::byte> bytes, std::size_t offset) {
  CHECK(offset + sizeof(std::uint32_t) <= bytes.size(), "the number lies in the block");
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

void store_u64(std::span<std::byte> bytes, std::size_t offset, std::uint64_t value) {
  CHECK(offset + sizeof(value) <= bytes.size(), "the number lies in the block");
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

void store_u32(std::span<std::byte> bytes, std::size_t offset, std::uint32_t value) {
  CHECK(offset + sizeof(value) <= bytes.size(), "the number lies in the block");
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

void ByteWriter::u32(std::uint32_t value) {
  bytes_.resize(bytes_.size() + sizeof(value));
  store_u32(bytes_, bytes_.size() - sizeof(value), value);
}

void ByteWriter::u64(std::uint64_t value) {
  bytes_.resize(bytes_.size() + sizeof(value));
  store_u64(bytes_, bytes_.size() - sizeof(value), value);
}

void ByteWriter::text(std::string_view value) {
  u64(value.size());
  const auto bytes = std::as_bytes(std::span(value));
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void ByteReader::fail(std::string_view what) const { throw FormatError(fmt::format("{}: {}", where_, what)); }

std::span<const std::byte> ByteReader::take(std::uint64_t size) {
  if (size > rest_.size()) fail(fmt::format("{} bytes were expected, {} are left", size, rest_.size()));
  const std::span<const std::byte> taken = rest_.first(size);
  rest_ = rest_.subspan(size);
  return taken;
}

std::uint32_t ByteReader::u32() { return load_u32(take(sizeof(std::uint32_t)), 0); }

std::uint64_t ByteReader::u64() { return load_u64(take(sizeof(std::uint64_t)), 0); }

std::string ByteReader::text() {
  const std::span<const std::byte> bytes = take(u64());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t ByteReader::count(std::uint64_t item_bytes) {
  const std::uint64_t items = u64();
  if (items > rest_.size() / item_bytes) fail(fmt::format("{} items cannot be in {} bytes", items, rest_.size()));
  return items;
}

void ByteReader::expect_end() const {
  if (!rest_.empty()) fail(fmt::format("{} bytes too many", rest_.size()));
}

}  // namespace sluice
