// SPDX-License-Identifier: Apache-2.0
#include "data/prepared_file.h"

#include <array>
#include <limits>

#include <fmt/format.h>

#include "base/byte_codec.h"
#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"

namespace sluice {
namespace {

constexpr std::uint64_t kMagic = 0x31302D4154414453ULL;  // "SDATA-01"
constexpr std::uint32_t kLearnedBit = 0x80000000U;
constexpr std::size_t kChecksumOffset = kPreparedHeaderBytes - 8;

// Every number of the header but its own checksum, in the order of the file.
std::array<std::uint64_t*, 10> fields(PreparedHeader& header) {
  RowCounts& counts = header.counts;
  return {&header.fingerprint,  &header.sequence_len, &header.index_checksum,     &counts.num_rows,
          &counts.num_examples, &counts.num_tokens,   &counts.num_learned_tokens, &counts.num_truncated,
          &counts.num_dropped,  &counts.num_bad};
}

}  // namespace

std::vector<std::byte> encode_prepared_header(const PreparedHeader& header) {
  std::vector<std::byte> bytes(kPreparedHeaderBytes);
  PreparedHeader copy = header;
  store_u64(bytes, 0, kMagic);
  std::size_t at = 8;
  for (const std::uint64_t* const field : fields(copy)) {
    store_u64(bytes, at, *field);
    at += 8;
  }
  CHECK(at <= kChecksumOffset, "the header has room for its fields");
  store_u64(bytes, kChecksumOffset, xxh3(std::span(bytes).first(kChecksumOffset)));
  return bytes;
}

PreparedHeader decode_prepared_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                                      const std::string& where) {
  if (bytes.size() != kPreparedHeaderBytes || load_u64(bytes, 0) != kMagic ||
      load_u64(bytes, kChecksumOffset) != xxh3(bytes.first(kChecksumOffset))) {
    throw FormatError(fmt::format("{} does not begin as prepared data does; delete it and it is made anew", where));
  }
  PreparedHeader header;
  std::size_t at = 8;
  for (std::uint64_t* const field : fields(header)) {
    *field = load_u64(bytes, at);
    at += 8;
  }
  constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 56;
  if (header.counts.num_tokens > kMaxCount || header.counts.num_examples > kMaxCount ||
      header.file_bytes() != file_bytes) {
    throw FormatError(fmt::format("{} is {} bytes long and should have another length; delete it and it is made anew",
                                  where, file_bytes));
  }
  return header;
}

std::vector<std::byte> encode_tokens(const Example& example) {
  CHECK(example.ids.size() == example.labels.size(), "each token has a label or none");
  std::vector<std::byte> bytes(example.ids.size() * kPreparedTokenBytes);
  for (std::size_t i = 0; i < example.ids.size(); ++i) {
    const bool learned = i > 0 && example.labels[i - 1] != kNoLabel;
    CHECK(!learned || example.labels[i - 1] == example.ids[i], "a label is the next token");
    store_u32(bytes, i * kPreparedTokenBytes,
              static_cast<std::uint32_t>(example.ids[i]) | (learned ? kLearnedBit : 0U));
  }
  return bytes;
}

Example decode_tokens(std::span<const std::byte> bytes) {
  Example example;
  const std::size_t num_tokens = bytes.size() / kPreparedTokenBytes;
  example.ids.resize(num_tokens);
  example.labels.assign(num_tokens, kNoLabel);
  for (std::size_t i = 0; i < num_tokens; ++i) {
    const std::uint32_t word = load_u32(bytes, i * kPreparedTokenBytes);
    example.ids[i] = static_cast<std::int32_t>(word & ~kLearnedBit);
    if (i > 0 && (word & kLearnedBit) != 0) example.labels[i - 1] = example.ids[i];
  }
  return example;
}

}  // namespace sluice
