// SPDX-License-Identifier: Apache-2.0
// The file that keeps examples, little-endian:
//
//   header (128 bytes) | tokens, 4 bytes each: the id, its highest bit set where it is learned | index: for each
//   example its number of tokens and the low half of their XXH3
//
// Header and index have checksums of their own. Pure functions over bytes; nothing is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/example.h"
#include "data/example_reader.h"

namespace sluice {

inline constexpr std::uint64_t kPreparedHeaderBytes = 128;
inline constexpr std::uint64_t kPreparedTokenBytes = 4;
inline constexpr std::uint64_t kPreparedEntryBytes = 8;

struct PreparedHeader {
  std::uint64_t fingerprint = 0;  // of all that the examples were made from
  std::uint64_t sequence_len = 0;
  std::uint64_t index_checksum = 0;
  RowCounts counts;

  std::uint64_t index_offset_bytes() const { return kPreparedHeaderBytes + counts.num_tokens * kPreparedTokenBytes; }
  std::uint64_t file_bytes() const { return index_offset_bytes() + counts.num_examples * kPreparedEntryBytes; }
};

std::vector<std::byte> encode_prepared_header(const PreparedHeader& header);
// Throws FormatError where they are no header, or one that does not fit a file of `file_bytes`.
PreparedHeader decode_prepared_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                                      const std::string& where);

std::vector<std::byte> encode_tokens(const Example& example);
Example decode_tokens(std::span<const std::byte> bytes);

}  // namespace sluice
