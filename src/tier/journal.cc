// SPDX-License-Identifier: Apache-2.0
#include "tier/journal.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"

namespace sluice {
namespace {

// One copy as found on its drive.
struct Copy {
  std::string path;
  std::vector<std::byte> bytes;
  std::optional<RecordFrame> base;
  bool exists = false;
  bool counts = false;  // has the epoch that is read

  bool ends_by(std::uint64_t offset) const {
    return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(offset, bytes.size())),
                       bytes.end(), [](std::byte value) { return value == std::byte{0}; });
  }
};

Copy read_copy(const JournalPlace& place, const std::string& path) {
  Copy copy;
  copy.path = path;
  copy.exists = place.files.exists(path);
  if (!copy.exists) return copy;
  const auto file = place.files.open(path, OpenMode::kReadOnly, Caching::kPageCache);
  copy.bytes.resize(file->size_bytes());
  place.engine.submit(IoRequest::read(*file, 0, copy.bytes)).wait();
  copy.base = parse_frame(copy.bytes, 0);
  if (copy.base && copy.base->kind != RecordKind::kBase) copy.base.reset();
  return copy;
}

// Neither copy has a record at `offset`. That is the end, unless a later record shows that one is missing.
void require_end(const std::array<Copy, 2>& copies, const JournalContents& contents) {
  for (const Copy& copy : copies) {
    if (!copy.counts) continue;
    for (std::uint64_t offset = contents.end_offset + kBlockBytes; offset < copy.bytes.size(); offset += kBlockBytes) {
      const std::optional<RecordFrame> later = parse_frame(copy.bytes, offset);
      if (later && later->store_id == contents.store_id && later->epoch == contents.epoch) {
        throw FormatError(
            fmt::format("both copies of the journal are damaged at offset {} of '{}': commit {} is lost; "
                        "restore the store's directories from a backup",
                        contents.end_offset, copy.path, contents.sequence + 1));
      }
    }
  }
}

std::vector<IoRequest> writes(File& file_a, File& file_b, std::uint64_t offset, std::span<const std::byte> bytes) {
  return {IoRequest::write(file_a, offset, bytes), IoRequest::write(file_b, offset, bytes)};
}

std::vector<IoRequest> syncs(File& file_a, File& file_b) { return {IoRequest::sync(file_a), IoRequest::sync(file_b)}; }

}  // namespace

JournalContents read_journal(const JournalPlace& place) {
  std::array<Copy, 2> copies{read_copy(place, place.path_a()), read_copy(place, place.path_b())};
  JournalContents contents;
  std::uint64_t newest = 0;
  for (const Copy& copy : copies) {
    if (copy.base) newest = std::max(newest, copy.base->epoch);
  }
  const RecordFrame* base = nullptr;
  for (Copy& copy : copies) {
    if (!copy.base) {
      contents.damage.push_back(
          fmt::format("'{}' {}", copy.path, copy.exists ? "has a damaged first record" : "is missing"));
    } else if (copy.base->epoch != newest) {
      contents.unfinished.push_back(fmt::format("'{}' is of an older epoch", copy.path));
    } else {
      copy.counts = true;
      base = &*copy.base;
    }
  }
  if (base == nullptr) {
    throw FormatError(
        fmt::format("neither '{}' nor '{}' begins with a whole record: the store cannot be read; restore "
                    "its directories from a backup",
                    copies[0].path, copies[1].path));
  }
  contents.store_id = base->store_id;
  contents.epoch = base->epoch;
  contents.sequence = base->sequence;
  contents.base = parse_base(base->payload, base == &*copies[0].base ? copies[0].path : copies[1].path);
  contents.end_offset = frame_bytes(*base);

  // A copy whose base is damaged may still hold whole records of this epoch behind it.
  for (Copy& copy : copies) copy.counts = copy.counts || (copy.exists && !copy.base);

  while (true) {
    std::optional<RecordFrame> found;
    std::array<bool, 2> whole{};
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (!copies[i].counts) continue;
      std::optional<RecordFrame> record = parse_frame(copies[i].bytes, contents.end_offset);
      whole[i] = record && record->kind == RecordKind::kCommit && record->store_id == contents.store_id &&
                 record->epoch == contents.epoch && record->sequence == contents.sequence + 1;
      if (!whole[i]) continue;
      if (found && *found != *record) {
        throw FormatError(
            fmt::format("'{}' and '{}' hold different records at offset {}: they are not two copies of "
                        "one journal",
                        copies[0].path, copies[1].path, contents.end_offset));
      }
      found = std::move(record);
    }
    if (!found) break;
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (whole[i] || !copies[i].counts) continue;
      // A copy that simply stops was cut by a crash. One that holds something else was damaged, or torn by a power cut.
      auto& list = copies[i].ends_by(contents.end_offset) ? contents.unfinished : contents.damage;
      list.push_back(fmt::format("'{}' has no whole record of commit {} at offset {}", copies[i].path, found->sequence,
                                 contents.end_offset));
    }
    contents.commits.push_back({found->sequence, parse_commit(found->payload, copies[whole[0] ? 0 : 1].path)});
    contents.sequence = found->sequence;
    contents.end_offset += frame_bytes(*found);
  }
  require_end(copies, contents);
  for (const Copy& copy : copies) {
    if (copy.counts && !copy.ends_by(contents.end_offset)) {
      contents.unfinished.push_back(
          fmt::format("'{}' ends in a record that was never committed, at offset {}", copy.path, contents.end_offset));
    }
  }
  return contents;
}

Journal::Journal(const JournalPlace& place, const RecordFrame& base)
    : engine_(place.engine),
      file_a_(place.files.open(place.path_a(), OpenMode::kReadWrite, Caching::kPageCache)),
      file_b_(place.files.open(place.path_b(), OpenMode::kReadWrite, Caching::kPageCache)),
      store_id_(base.store_id),
      epoch_(base.epoch),
      end_offset_(frame_bytes(base)) {}

std::unique_ptr<Journal> Journal::rewrite(const JournalPlace& place, const RecordFrame& base) {
  const std::string new_a = place.path_a() + ".new";
  const std::string new_b = place.path_b() + ".new";
  for (const std::string& path : {new_a, new_b}) {
    if (place.files.exists(path)) place.files.remove(path);
  }
  const std::vector<std::byte> bytes = encode(base);
  {
    const auto file_a = place.files.open(new_a, OpenMode::kCreate, Caching::kPageCache);
    const auto file_b = place.files.open(new_b, OpenMode::kCreate, Caching::kPageCache);
    place.engine.submit(writes(*file_a, *file_b, 0, bytes)).wait();
    place.engine.submit(syncs(*file_a, *file_b)).wait();
  }
  place.files.rename(new_a, place.path_a());
  place.files.rename(new_b, place.path_b());
  place.files.sync_directory(place.directory_a);
  if (place.directory_b != place.directory_a) place.files.sync_directory(place.directory_b);
  return std::unique_ptr<Journal>(new Journal(place, base));
}

void Journal::append(std::uint64_t sequence, const CommitRecord& record) {
  const RecordFrame frame{.kind = RecordKind::kCommit,
                          .store_id = store_id_,
                          .epoch = epoch_,
                          .sequence = sequence,
                          .payload = encode(record)};
  const std::vector<std::byte> bytes = encode(frame);
  engine_.submit(writes(*file_a_, *file_b_, end_offset_, bytes)).wait();
  engine_.submit(syncs(*file_a_, *file_b_)).wait();
  end_offset_ += bytes.size();
}

}  // namespace sluice
