// SPDX-License-Identifier: Apache-2.0
#include "train/event_record.h"

#include <array>
#include <bit>

namespace sluice {
namespace {

constexpr std::uint32_t kReversedPolynomial = 0x82F63B78;

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

// TFRecord turns and shifts checksums, so that those of data that contains checksums stay meaningful.
std::uint32_t mask_crc(std::uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8U; }

std::string little_endian(std::uint64_t value, int num_bytes) {
  std::string bytes;
  for (int i = 0; i < num_bytes; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFFU);
  return bytes;
}

enum class WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  while (value >= 0x80) {
    bytes += static_cast<char>((value & 0x7FU) | 0x80U);
    value >>= 7;
  }
  return bytes + static_cast<char>(value);
}

std::string tag(std::uint32_t field, WireType type) { return varint(field << 3 | static_cast<std::uint32_t>(type)); }
std::string varint_field(std::uint32_t field, std::uint64_t value) {
  return tag(field, WireType::kVarint) + varint(value);
}
std::string bytes_field(std::uint32_t field, std::string_view bytes) {
  return tag(field, WireType::kBytes) + varint(bytes.size()) + std::string(bytes);
}
std::string double_field(std::uint32_t field, double value) {
  return tag(field, WireType::kFixed64) + little_endian(std::bit_cast<std::uint64_t>(value), 8);
}
std::string float_field(std::uint32_t field, float value) {
  return tag(field, WireType::kFixed32) + little_endian(std::bit_cast<std::uint32_t>(value), 4);
}

std::string time_fields(const EventTime& time) {
  return double_field(1, time.wall_seconds) + varint_field(2, time.step);
}

std::string frame_record(std::string_view event) {
  const std::string length = little_endian(event.size(), 8);
  return length + little_endian(mask_crc(crc32c(length)), 4) + std::string(event) +
         little_endian(mask_crc(crc32c(event)), 4);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU];
  return ~crc;
}

std::string version_record(double wall_seconds) {
  return frame_record(double_field(1, wall_seconds) + bytes_field(3, "brain.Event:2"));
}

std::string restart_record(const EventTime& time) {
  constexpr std::uint64_t kStart = 1;
  return frame_record(time_fields(time) + bytes_field(7, varint_field(1, kStart)));
}

std::string scalars_record(const EventTime& time, const std::vector<std::pair<std::string_view, double>>& scalars) {
  std::string summary;
  for (const auto& [name, value] : scalars) {
    summary += bytes_field(1, bytes_field(1, name) + float_field(2, static_cast<float>(value)));
  }
  return frame_record(time_fields(time) + bytes_field(5, summary));
}

}  // namespace sluice
