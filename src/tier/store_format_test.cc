// SPDX-License-Identifier: Apache-2.0
#include "tier/store_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/byte_codec.h"
#include "base/error.h"
#include "base/hash.h"

namespace sluice {
namespace {

using testing::HasSubstr;

SliceRecord some_slice() {
  return {.key = "layer.3/weights",
          .size_bytes = 12345,
          .extents = {{0, kDataStart, 8192}, {1, kDataStart + 4096, 8192}},
          .chunk_sums = {1, 2, 3}};
}

TEST(StoreFormat, RecordsComeBackAsTheyWere) {
  CommitRecord commit{.note = "step 7",
                      .put = {some_slice()},
                      .removed = {"old"},
                      .pinned = {"checkpoint-7"},
                      .unpinned = {"checkpoint-5"},
                      .drive_bytes_written = {100, 200}};
  EXPECT_EQ(parse_commit(encode(commit), "test"), commit);
  commit.restored = "checkpoint-3";
  EXPECT_EQ(parse_commit(encode(commit), "test"), commit);
  const BaseRecord base{.chunk_bytes = 4096,
                        .weights = {1, 3},
                        .note = "step 6",
                        .slices = {some_slice(), some_slice()},
                        .current_idxs = {1},
                        .snapshots = {{"checkpoint-5", 9, "note", {0, 1}}},
                        .drive_bytes_written = {1, 2}};
  EXPECT_EQ(parse_base(encode(base), "test"), base);
  const RecordFrame frame{RecordKind::kCommit, 11, 22, 33, encode(commit)};
  const std::vector<std::byte> bytes = encode(frame);
  EXPECT_EQ(bytes.size() % kBlockBytes, 0U);
  EXPECT_EQ(parse_frame(bytes, 0), frame);
}

TEST(StoreFormat, ATruncatedRecordIsRefusedAtEveryLength) {
  const std::vector<std::byte> payload = encode(CommitRecord{.note = "x", .put = {some_slice()}});
  for (std::size_t size = 0; size < payload.size(); ++size) {
    EXPECT_THROW(parse_commit(std::span(payload).first(size), "test"), FormatError) << size;
  }
  const std::vector<std::byte> frame = encode(RecordFrame{RecordKind::kBase, 1, 1, 1, payload});
  for (std::size_t size = 0; size < frame.size(); size += 512) {
    EXPECT_EQ(parse_frame(std::span(frame).first(size), 0), std::nullopt) << size;
  }
}

TEST(StoreFormat, IndexesOutsideTheBaseAreRefused) {
  const BaseRecord base{.chunk_bytes = 4096, .weights = {1}, .slices = {some_slice()}, .current_idxs = {1}};
  EXPECT_THROW(parse_base(encode(base), "test"), FormatError);
}

TEST(StoreFormat, HeadersTellDamageForeignFilesAndOtherVersionsApart) {
  const DriveHeader header{.store_id = 42, .drive_idx = 1, .chunk_bytes = 8192, .weights = {2, 1}};
  const std::vector<std::byte> good = encode_drive_header(header);
  EXPECT_EQ(parse_drive_header(good, "f"), header);

  std::vector<std::byte> damaged = good;
  damaged[100] ^= std::byte{1};
  EXPECT_THROW(parse_drive_header(damaged, "f"), FormatError);

  const std::vector<std::byte> foreign(kBlockBytes, std::byte{'x'});
  EXPECT_THROW(parse_drive_header(foreign, "f"), InvalidInput);

  std::vector<std::byte> newer = good;
  store_u32(newer, 8, kStoreVersion + 1);
  store_u64(newer, 48, 0);
  store_u64(newer, 48, xxh3(newer));
  try {
    parse_drive_header(newer, "/nvme0/slices.dat");
    FAIL() << "a newer version was read";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("version 2"));
    EXPECT_THAT(error.what(), HasSubstr("/nvme0/slices.dat"));
  }
}

}  // namespace
}  // namespace sluice
