// SPDX-License-Identifier: Apache-2.0
#include "tier/store_format.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/byte_codec.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "io/alignment.h"
#include "io/stripe_pattern.h"

namespace sluice {
namespace {

constexpr std::uint64_t kDriveMagic = 0x455649524453'4C53ULL;    // "SLSDRIVE"
constexpr std::uint64_t kRecordMagic = 0x44524F43'4552'4C53ULL;  // "SLRECORD"
constexpr std::uint64_t kMaxChunkBytes = kGiB;

constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kKindAt = 12;
constexpr std::size_t kStoreIdAt = 16;
constexpr std::size_t kEpochAt = 24;
constexpr std::size_t kSequenceAt = 32;
constexpr std::size_t kPayloadBytesAt = 40;
constexpr std::size_t kChecksumAt = 48;
constexpr std::size_t kFrameHeaderBytes = 64;

// Every version keeps magic, version and checksum where they are, so that damage and a newer version can be told apart.
std::uint64_t block_checksum(std::span<const std::byte> block) {
  std::vector<std::byte> copy(block.begin(), block.end());
  store_u64(copy, kChecksumAt, 0);
  return xxh3(copy);
}

void put_slice(ByteWriter& writer, const SliceRecord& slice) {
  writer.text(slice.key);
  writer.u64(slice.size_bytes);
  writer.u64(slice.first_chunk);
  writer.u64(slice.extents.size());
  for (const Extent& extent : slice.extents) {
    writer.u32(extent.drive_idx);
    writer.u64(extent.offset);
    writer.u64(extent.size_bytes);
  }
  writer.u64(slice.chunk_sums.size());
  for (const std::uint64_t sum : slice.chunk_sums) writer.u64(sum);
}

SliceRecord get_slice(ByteReader& reader) {
  SliceRecord slice;
  slice.key = reader.text();
  slice.size_bytes = reader.u64();
  slice.first_chunk = reader.u64();
  slice.extents.resize(reader.count(20));
  for (Extent& extent : slice.extents) {
    extent.drive_idx = reader.u32();
    extent.offset = reader.u64();
    extent.size_bytes = reader.u64();
  }
  slice.chunk_sums.resize(reader.count(8));
  for (std::uint64_t& sum : slice.chunk_sums) sum = reader.u64();
  return slice;
}

void put_slices(ByteWriter& writer, const std::vector<SliceRecord>& slices) {
  writer.u64(slices.size());
  for (const SliceRecord& slice : slices) put_slice(writer, slice);
}

std::vector<SliceRecord> get_slices(ByteReader& reader) {
  std::vector<SliceRecord> slices(reader.count(40));
  for (SliceRecord& slice : slices) slice = get_slice(reader);
  return slices;
}

void put_texts(ByteWriter& writer, const std::vector<std::string>& texts) {
  writer.u64(texts.size());
  for (const std::string& text : texts) writer.text(text);
}

std::vector<std::string> get_texts(ByteReader& reader) {
  std::vector<std::string> texts(reader.count(8));
  for (std::string& text : texts) text = reader.text();
  return texts;
}

void put_numbers(ByteWriter& writer, const std::vector<std::uint64_t>& numbers) {
  writer.u64(numbers.size());
  for (const std::uint64_t number : numbers) writer.u64(number);
}

std::vector<std::uint64_t> get_numbers(ByteReader& reader) {
  std::vector<std::uint64_t> numbers(reader.count(8));
  for (std::uint64_t& number : numbers) number = reader.u64();
  return numbers;
}

void put_u32s(ByteWriter& writer, const std::vector<std::uint32_t>& numbers) {
  writer.u64(numbers.size());
  for (const std::uint32_t number : numbers) writer.u32(number);
}

std::vector<std::uint32_t> get_u32s(ByteReader& reader) {
  std::vector<std::uint32_t> numbers(reader.count(4));
  for (std::uint32_t& number : numbers) number = reader.u32();
  return numbers;
}

std::vector<std::uint32_t> get_idxs(ByteReader& reader, std::size_t num_slices) {
  std::vector<std::uint32_t> idxs = get_u32s(reader);
  for (const std::uint32_t idx : idxs) {
    if (idx >= num_slices) reader.fail(fmt::format("slice {} of {} is referred to", idx, num_slices));
  }
  return idxs;
}

void require_layout(const ByteReader& reader, std::uint64_t chunk_bytes, const std::vector<std::uint32_t>& weights) {
  const bool weights_ok = !weights.empty() && weights.size() <= kMaxDrives &&
                          std::all_of(weights.begin(), weights.end(), [](std::uint32_t weight) {
                            return weight >= 1 && weight <= StripePattern::kMaxWeight;
                          });
  if (!weights_ok || chunk_bytes == 0 || chunk_bytes > kMaxChunkBytes || !is_aligned(chunk_bytes, kIoAlignment)) {
    reader.fail("drives, weights or chunk size make no sense");
  }
}

}  // namespace

std::vector<std::byte> encode_drive_header(const DriveHeader& header) {
  ByteWriter fields;
  fields.u32(header.drive_idx);
  fields.u64(header.chunk_bytes);
  put_u32s(fields, header.weights);
  const std::vector<std::byte> bytes = fields.take();

  std::vector<std::byte> block(kBlockBytes);
  store_u64(block, kMagicAt, kDriveMagic);
  store_u32(block, kVersionAt, kStoreVersion);
  store_u64(block, kStoreIdAt, header.store_id);
  store_u64(block, kPayloadBytesAt, bytes.size());
  std::copy(bytes.begin(), bytes.end(), block.begin() + kFrameHeaderBytes);
  store_u64(block, kChecksumAt, block_checksum(block));
  return block;
}

bool has_drive_magic(std::span<const std::byte> block) { return load_u64(block, kMagicAt) == kDriveMagic; }

DriveHeader parse_drive_header(std::span<const std::byte> block, const std::string& path) {
  if (block.size() < kBlockBytes) throw FormatError(fmt::format("'{}' is too short to be a slice store", path));
  block = block.first(kBlockBytes);
  if (!has_drive_magic(block)) {
    throw InvalidInput(
        fmt::format("'{}' is not a slice store of Sluice, or its first block is damaged: name another "
                    "directory, or run `sluice store check --repair` on this one",
                    path));
  }
  if (load_u64(block, kChecksumAt) != block_checksum(block)) {
    throw FormatError(
        fmt::format("the header of '{}' is damaged: run `sluice store check --repair` on its directory", path));
  }
  if (const std::uint32_t version = load_u32(block, kVersionAt); version != kStoreVersion) {
    throw InvalidInput(
        fmt::format("'{}' is a slice store of version {}, this program reads version {}: use the Sluice "
                    "that made it, or name another directory",
                    path, version, kStoreVersion));
  }
  const std::uint64_t field_bytes = load_u64(block, kPayloadBytesAt);
  if (field_bytes > kBlockBytes - kFrameHeaderBytes) throw FormatError(fmt::format("the header of '{}' lies", path));
  ByteReader reader(block.subspan(kFrameHeaderBytes, field_bytes), fmt::format("the header of '{}'", path));
  DriveHeader header;
  header.store_id = load_u64(block, kStoreIdAt);
  header.drive_idx = reader.u32();
  header.chunk_bytes = reader.u64();
  header.weights = get_u32s(reader);
  reader.expect_end();
  if (header.drive_idx >= header.weights.size()) reader.fail("the drive is not one of the store's");
  require_layout(reader, header.chunk_bytes, header.weights);
  return header;
}

std::vector<std::byte> encode(const CommitRecord& record) {
  ByteWriter writer;
  writer.text(record.note);
  put_slices(writer, record.put);
  put_texts(writer, record.removed);
  put_texts(writer, record.pinned);
  put_texts(writer, record.unpinned);
  put_numbers(writer, record.drive_bytes_written);
  if (!record.restored.empty()) writer.text(record.restored);
  return writer.take();
}

CommitRecord parse_commit(std::span<const std::byte> payload, const std::string& where) {
  ByteReader reader(payload, where);
  CommitRecord record;
  record.note = reader.text();
  record.put = get_slices(reader);
  record.removed = get_texts(reader);
  record.pinned = get_texts(reader);
  record.unpinned = get_texts(reader);
  record.drive_bytes_written = get_numbers(reader);
  if (reader.at_end()) return record;
  record.restored = reader.text();
  if (record.restored.empty()) reader.fail("a snapshot without a name was gone back to");
  reader.expect_end();
  return record;
}

std::vector<std::byte> encode(const BaseRecord& record) {
  ByteWriter writer;
  writer.u64(record.chunk_bytes);
  put_u32s(writer, record.weights);
  writer.text(record.note);
  put_slices(writer, record.slices);
  put_u32s(writer, record.current_idxs);
  writer.u64(record.snapshots.size());
  for (const SnapshotRecord& snapshot : record.snapshots) {
    writer.text(snapshot.name);
    writer.u64(snapshot.sequence);
    writer.text(snapshot.note);
    put_u32s(writer, snapshot.slice_idxs);
  }
  put_numbers(writer, record.drive_bytes_written);
  return writer.take();
}

BaseRecord parse_base(std::span<const std::byte> payload, const std::string& where) {
  ByteReader reader(payload, where);
  BaseRecord record;
  record.chunk_bytes = reader.u64();
  record.weights = get_u32s(reader);
  require_layout(reader, record.chunk_bytes, record.weights);
  record.note = reader.text();
  record.slices = get_slices(reader);
  record.current_idxs = get_idxs(reader, record.slices.size());
  record.snapshots.resize(reader.count(32));
  for (SnapshotRecord& snapshot : record.snapshots) {
    snapshot.name = reader.text();
    snapshot.sequence = reader.u64();
    snapshot.note = reader.text();
    snapshot.slice_idxs = get_idxs(reader, record.slices.size());
  }
  record.drive_bytes_written = get_numbers(reader);
  reader.expect_end();
  return record;
}

std::uint64_t frame_bytes(const RecordFrame& frame) {
  return round_up(kFrameHeaderBytes + frame.payload.size(), kBlockBytes);
}

std::vector<std::byte> encode(const RecordFrame& frame) {
  std::vector<std::byte> bytes(frame_bytes(frame));
  store_u64(bytes, kMagicAt, kRecordMagic);
  store_u32(bytes, kVersionAt, kStoreVersion);
  store_u32(bytes, kKindAt, static_cast<std::uint32_t>(frame.kind));
  store_u64(bytes, kStoreIdAt, frame.store_id);
  store_u64(bytes, kEpochAt, frame.epoch);
  store_u64(bytes, kSequenceAt, frame.sequence);
  store_u64(bytes, kPayloadBytesAt, frame.payload.size());
  std::copy(frame.payload.begin(), frame.payload.end(), bytes.begin() + kFrameHeaderBytes);
  store_u64(bytes, kChecksumAt, block_checksum(bytes));
  return bytes;
}

std::optional<RecordFrame> parse_frame(std::span<const std::byte> journal, std::uint64_t offset) {
  if (offset >= journal.size() || journal.size() - offset < kBlockBytes) return std::nullopt;
  const std::span<const std::byte> rest = journal.subspan(offset);
  if (load_u64(rest, kMagicAt) != kRecordMagic || load_u32(rest, kVersionAt) != kStoreVersion) return std::nullopt;
  const std::uint64_t payload_bytes = load_u64(rest, kPayloadBytesAt);
  if (payload_bytes > rest.size() - kFrameHeaderBytes) return std::nullopt;
  const std::uint64_t record_bytes = round_up(kFrameHeaderBytes + payload_bytes, kBlockBytes);
  if (record_bytes > rest.size()) return std::nullopt;
  const std::span<const std::byte> record = rest.first(record_bytes);
  if (load_u64(record, kChecksumAt) != block_checksum(record)) return std::nullopt;
  const std::uint32_t kind = load_u32(record, kKindAt);
  if (kind != static_cast<std::uint32_t>(RecordKind::kBase) &&
      kind != static_cast<std::uint32_t>(RecordKind::kCommit)) {
    return std::nullopt;
  }
  RecordFrame frame;
  frame.kind = static_cast<RecordKind>(kind);
  frame.store_id = load_u64(record, kStoreIdAt);
  frame.epoch = load_u64(record, kEpochAt);
  frame.sequence = load_u64(record, kSequenceAt);
  const std::span<const std::byte> payload = record.subspan(kFrameHeaderBytes, payload_bytes);
  frame.payload.assign(payload.begin(), payload.end());
  return frame;
}

}  // namespace sluice
