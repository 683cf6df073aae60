// SPDX-License-Identifier: Apache-2.0
// The bytes of a slice store. Each drive's directory holds
//
//   slices.dat   [ header, one 4 KiB block | free up to kDataStart | extents … ]
//   journal.a    on the first drive, journal.b on the second if there is one: two copies of one journal,
//                [ base record | commit record | commit record | … ]
//
// A record is padded to whole 4 KiB blocks, so that appending never rewrites a block that holds an older record:
//
//   0 magic | 8 version, kind | 16 store id | 24 epoch | 32 sequence | 40 payload bytes | 48 checksum | 56 reserved
//   64 payload … zeros
//
// The checksum (XXH3) covers the whole padded record with the checksum field as zero. Everything is little-endian.
// Parsers here trust nothing and throw FormatError; they are fuzzed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/stripe_set.h"

namespace sluice {

inline constexpr std::uint32_t kStoreVersion = 1;
inline constexpr std::uint64_t kBlockBytes = 4096;
inline constexpr std::uint64_t kDataStart = 1024 * 1024;
inline constexpr std::size_t kMaxDrives = 64;

struct DriveHeader {
  std::uint64_t store_id = 0;
  std::uint32_t drive_idx = 0;
  std::uint64_t chunk_bytes = 0;
  std::vector<std::uint32_t> weights;  // one a drive of the store

  bool operator==(const DriveHeader&) const = default;
};

std::vector<std::byte> encode_drive_header(const DriveHeader& header);  // kBlockBytes
// `path` is for the sentence. InvalidInput for what is not a store or is of a newer version, FormatError for damage.
DriveHeader parse_drive_header(std::span<const std::byte> block, const std::string& path);

// Whether this is the first block of a store at all, damaged elsewhere or not.
bool has_drive_magic(std::span<const std::byte> block);

struct SliceRecord {
  std::string key;
  std::uint64_t size_bytes = 0;
  std::uint64_t first_chunk = 0;  // of the stripe pattern
  std::vector<Extent> extents;
  std::vector<std::uint64_t> chunk_sums;  // XXH3 of each chunk as stored, padding included

  StripeRun run() const { return {extents, first_chunk}; }
  bool operator==(const SliceRecord&) const = default;
};

// What one commit changed.
struct CommitRecord {
  std::string note;
  std::string restored;  // the snapshot whose slices were made current before anything else; empty: none
  std::vector<SliceRecord> put;
  std::vector<std::string> removed;
  std::vector<std::string> pinned;    // snapshots taken of the state after this commit
  std::vector<std::string> unpinned;  // snapshots dropped
  std::vector<std::uint64_t> drive_bytes_written;

  bool operator==(const CommitRecord&) const = default;
};

struct SnapshotRecord {
  std::string name;
  std::uint64_t sequence = 0;
  std::string note;
  std::vector<std::uint32_t> slice_idxs;

  bool operator==(const SnapshotRecord&) const = default;
};

// The whole state, at the head of a journal.
struct BaseRecord {
  std::uint64_t chunk_bytes = 0;  // as in every DriveHeader, so that a damaged header can be written anew
  std::vector<std::uint32_t> weights;
  std::string note;
  std::vector<SliceRecord> slices;  // every version that anything below refers to, once
  std::vector<std::uint32_t> current_idxs;
  std::vector<SnapshotRecord> snapshots;
  std::vector<std::uint64_t> drive_bytes_written;

  bool operator==(const BaseRecord&) const = default;
};

std::vector<std::byte> encode(const CommitRecord& record);
std::vector<std::byte> encode(const BaseRecord& record);
CommitRecord parse_commit(std::span<const std::byte> payload, const std::string& where);
BaseRecord parse_base(std::span<const std::byte> payload, const std::string& where);

enum class RecordKind : std::uint32_t { kBase = 1, kCommit = 2 };

struct RecordFrame {
  RecordKind kind = RecordKind::kCommit;
  std::uint64_t store_id = 0;
  std::uint64_t epoch = 0;     // counts rewrites of the journal
  std::uint64_t sequence = 0;  // counts commits
  std::vector<std::byte> payload;

  bool operator==(const RecordFrame&) const = default;
};

std::vector<std::byte> encode(const RecordFrame& frame);  // padded
// The valid record that begins at `offset`, or nothing.
std::optional<RecordFrame> parse_frame(std::span<const std::byte> journal, std::uint64_t offset);
std::uint64_t frame_bytes(const RecordFrame& frame);

}  // namespace sluice
