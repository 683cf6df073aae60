// SPDX-License-Identifier: Apache-2.0
#include "tier/slice_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/units.h"

namespace sluice {
namespace {

// A journal is rewritten once it is this long and several times its base record: rarely, and never large.
constexpr std::uint64_t kMinRewriteBytes = 4 * kMiB;
constexpr std::uint64_t kRewriteFactor = 4;

}  // namespace

std::uint64_t SliceVersion::stored_bytes() const { return round_up(record_.size_bytes, kBlockBytes); }

SliceStore::~SliceStore() { CHECK(num_writers_ == 0, "writers die before their store"); }

SliceRef SliceStore::find(const std::string& key) const {
  const std::scoped_lock lock(maps_mutex_);
  if (const auto staged = staged_.find(key); staged != staged_.end()) return staged->second;
  const auto found = current_.find(key);
  return found == current_.end() ? nullptr : found->second;
}

SliceRef SliceStore::find_in_snapshot(const std::string& snapshot, const std::string& key) const {
  const std::scoped_lock lock(maps_mutex_);
  const auto kept = snapshots_.find(snapshot);
  if (kept == snapshots_.end()) throw InvalidInput(fmt::format("the store has no snapshot '{}'", snapshot));
  const auto found = kept->second.slices.find(key);
  return found == kept->second.slices.end() ? nullptr : found->second;
}

std::vector<SliceRef> SliceStore::committed() const {
  const std::scoped_lock lock(maps_mutex_);
  std::vector<SliceRef> slices;
  for (const auto& [key, version] : current_) slices.push_back(version);
  return slices;
}

std::vector<SliceRef> SliceStore::kept() const {
  const std::scoped_lock lock(maps_mutex_);
  std::set<SliceRef> versions;
  for (const auto& [key, version] : current_) versions.insert(version);
  for (const auto& [name, snapshot] : snapshots_) {
    for (const auto& [key, version] : snapshot.slices) versions.insert(version);
  }
  std::vector<SliceRef> sorted(versions.begin(), versions.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const SliceRef& left, const SliceRef& right) { return left->key() < right->key(); });
  return sorted;
}

Ticket SliceStore::read(const SliceVersion& version, std::uint64_t offset, std::span<std::byte> into) const {
  CHECK(offset + into.size() <= version.stored_bytes(), "a read stays in its slice");
  const std::int64_t begin_ns = trace_ != nullptr ? trace_->now_ns() : 0;
  Ticket ticket = stripes_->read(version.record_.run(), offset, into);
  trace_transfer(trace_, ticket, {Lane::kNvmeToHost, version.key(), offset, into.size(), begin_ns});
  return ticket;
}

void SliceStore::verify(const SliceVersion& version, std::uint64_t offset, std::span<const std::byte> bytes) const {
  const std::uint64_t end = offset + bytes.size();
  CHECK(is_aligned(offset, chunk_bytes()) && (is_aligned(end, chunk_bytes()) || end == version.stored_bytes()),
        "whole chunks are verified");
  for (std::uint64_t at = offset; at < end; at += chunk_bytes()) {
    const std::uint64_t size = std::min(chunk_bytes(), end - at);
    if (xxh3(bytes.subspan(at - offset, size)) != version.record_.chunk_sums[at / chunk_bytes()]) {
      refuse_chunk(version, at);
    }
  }
}

std::vector<IoRequest> SliceStore::read_requests(const SliceVersion& version, std::span<std::byte> into) const {
  CHECK(into.size() == version.stored_bytes(), "all of a version, as it is stored");
  return stripes_->read_requests(version.record_.run(), 0, into);
}

void SliceStore::verify_sums(const SliceVersion& version, std::span<const std::uint64_t> chunk_sums) const {
  const std::vector<std::uint64_t>& expected = version.record_.chunk_sums;
  CHECK(chunk_sums.size() == expected.size(), "a sum for each chunk");
  const auto [other, _] = std::mismatch(chunk_sums.begin(), chunk_sums.end(), expected.begin());
  if (other == chunk_sums.end()) return;
  refuse_chunk(version, static_cast<std::uint64_t>(other - chunk_sums.begin()) * chunk_bytes());
}

void SliceStore::refuse_chunk(const SliceVersion& version, std::uint64_t offset) const {
  const Extent place = stripes_->locate(version.record_.run(), offset);
  throw FormatError(fmt::format(
      "slice '{}' is damaged: {} at offset {} of '{}' are not what was written; the drive lost them, so go back to a "
      "checkpoint that does not need them",
      version.key(), format_bytes(std::min(chunk_bytes(), version.stored_bytes() - offset)), place.offset,
      stripes_->file(place.drive_idx).path()));
}

void SliceStore::stage(SliceRef version) {
  const std::scoped_lock lock(maps_mutex_);
  staged_[version->key()] = std::move(version);
}

void SliceStore::remove(const std::string& key) {
  const std::scoped_lock lock(maps_mutex_);
  staged_[key] = nullptr;
}

void SliceStore::require_whole() const {
  if (failure_.empty()) return;
  throw IoError(0, fmt::format("the store in '{}' takes no more commits, because one failed ({}); open it again: what "
                               "was committed before is kept",
                               space_->directory(0), failure_));
}

std::uint64_t SliceStore::append(CommitRecord record) {
  require_whole();
  const std::uint64_t sequence = sequence_ + 1;
  failure_ = "an earlier commit did not end";
  try {
    // Everything the record names is durable before the record is: a recovery that finds it finds them.
    stripes_->sync().wait();
    record.drive_bytes_written = wear_->drive_bytes();
    const std::uint64_t before = journal_->size_bytes();
    journal_->append(sequence, record);
    count_journal_wear(journal_->size_bytes() - before);
  } catch (const Error& error) {
    failure_ = error.what();
    throw;
  }
  failure_.clear();
  return sequence;
}

std::uint64_t SliceStore::commit(const std::string& note) {
  const std::scoped_lock commit_lock(commit_mutex_);
  CommitRecord record;
  record.note = note;
  SliceMap staged;
  {
    const std::scoped_lock lock(maps_mutex_);
    staged = staged_;
  }
  for (const auto& [key, version] : staged) {
    if (version) {
      record.put.push_back(version->record());
    } else {
      record.removed.push_back(key);
    }
  }
  std::uint64_t sequence = 0;
  try {
    sequence = append(std::move(record));
  } catch (const Error&) {
    const std::scoped_lock lock(maps_mutex_);
    in_doubt_.push_back(std::move(staged));
    throw;
  }
  {
    const std::scoped_lock lock(maps_mutex_);
    for (const auto& [key, version] : staged) {
      if (version) {
        current_[key] = version;
      } else {
        current_.erase(key);
      }
      // Unless a newer version was staged while this one was committed.
      if (const auto entry = staged_.find(key); entry->second == version) staged_.erase(entry);
    }
    sequence_ = sequence;
    note_ = note;
  }
  if (journal_->size_bytes() > std::max(kMinRewriteBytes, kRewriteFactor * journal_base_bytes_)) {
    rewrite_journal(journal_->epoch() + 1);
  }
  return sequence;
}

void SliceStore::pin(const std::string& name) {
  const std::scoped_lock commit_lock(commit_mutex_);
  CommitRecord record;
  record.note = note_;
  record.pinned.push_back(name);
  {
    const std::scoped_lock lock(maps_mutex_);
    if (snapshots_.contains(name)) throw InvalidInput(fmt::format("the store has a snapshot '{}' already", name));
  }
  const std::uint64_t sequence = append(std::move(record));
  const std::scoped_lock lock(maps_mutex_);
  snapshots_[name] = {{name, sequence, note_}, current_};
  sequence_ = sequence;
}

void SliceStore::unpin(const std::string& name) {
  const std::scoped_lock commit_lock(commit_mutex_);
  CommitRecord record;
  record.note = note_;
  record.unpinned.push_back(name);
  {
    const std::scoped_lock lock(maps_mutex_);
    if (!snapshots_.contains(name)) throw InvalidInput(fmt::format("the store has no snapshot '{}'", name));
  }
  const std::uint64_t sequence = append(std::move(record));
  const std::scoped_lock lock(maps_mutex_);
  snapshots_.erase(name);
  sequence_ = sequence;
}

void SliceStore::restore(const std::string& name, const std::vector<std::string>& dropped) {
  const std::scoped_lock commit_lock(commit_mutex_);
  CommitRecord record;
  record.restored = name;
  record.unpinned = dropped;
  {
    const std::scoped_lock lock(maps_mutex_);
    CHECK(num_writers_ == 0, "nobody writes while the store goes back");
    const auto found = snapshots_.find(name);
    if (found == snapshots_.end()) throw InvalidInput(fmt::format("the store has no snapshot '{}'", name));
    for (const std::string& other : dropped) {
      CHECK(other != name && snapshots_.contains(other), "other snapshots that are there are dropped");
    }
    record.note = found->second.info.note;
    staged_.clear();
  }
  const std::uint64_t sequence = append(std::move(record));
  const std::scoped_lock lock(maps_mutex_);
  const Snapshot& snapshot = snapshots_.at(name);
  current_ = snapshot.slices;
  note_ = snapshot.info.note;
  for (const std::string& other : dropped) snapshots_.erase(other);
  sequence_ = sequence;
}

std::vector<SnapshotInfo> SliceStore::snapshots() const {
  const std::scoped_lock lock(maps_mutex_);
  std::vector<SnapshotInfo> infos;
  for (const auto& [name, snapshot] : snapshots_) infos.push_back(snapshot.info);
  return infos;
}

BaseRecord SliceStore::base_record() const {
  const std::scoped_lock lock(maps_mutex_);
  BaseRecord base;
  base.chunk_bytes = header_.chunk_bytes;
  base.weights = header_.weights;
  base.note = note_;
  base.drive_bytes_written = wear_->drive_bytes();
  std::map<const SliceVersion*, std::uint32_t> idxs;
  const auto add_all = [&](const SliceMap& slices, std::vector<std::uint32_t>& into) {
    for (const auto& [key, version] : slices) {
      const auto [entry, added] = idxs.emplace(version.get(), static_cast<std::uint32_t>(base.slices.size()));
      if (added) base.slices.push_back(version->record());
      into.push_back(entry->second);
    }
  };
  add_all(current_, base.current_idxs);
  for (const auto& [name, snapshot] : snapshots_) {
    SnapshotRecord record{
        .name = name, .sequence = snapshot.info.sequence, .note = snapshot.info.note, .slice_idxs = {}};
    add_all(snapshot.slices, record.slice_idxs);
    base.snapshots.push_back(std::move(record));
  }
  return base;
}

void SliceStore::rewrite_journal(std::uint64_t epoch) {
  // Between the two renames appending to the old copies would lose what is appended: after a failure, no more.
  failure_ = "the journal could not be rewritten";
  const RecordFrame frame{.kind = RecordKind::kBase,
                          .store_id = header_.store_id,
                          .epoch = epoch,
                          .sequence = sequence_,
                          .payload = encode(base_record())};
  journal_ = Journal::rewrite(journal_place_, frame);
  journal_base_bytes_ = journal_->size_bytes();
  count_journal_wear(journal_base_bytes_);
  failure_.clear();
}

void SliceStore::count_journal_wear(std::uint64_t copy_bytes) {
  wear_->add(0, copy_bytes);
  wear_->add(space_->num_drives() > 1 ? 1 : 0, copy_bytes);
}

void SliceStore::reserve_space(std::uint64_t more_bytes) { space_->preallocate(stripes_->shares(more_bytes)); }

std::vector<std::uint64_t> SliceStore::missing_bytes(std::uint64_t more_bytes) const {
  std::vector<std::uint64_t> wanted = stripes_->shares(more_bytes);
  for (const SliceRef& version : kept()) {
    for (const Extent& extent : version->record().extents) wanted[extent.drive_idx] += extent.size_bytes;
  }
  return space_->missing_bytes(wanted);
}

std::uint64_t SliceStore::kept_bytes() const {
  std::uint64_t bytes = 0;
  for (const SliceRef& version : kept()) bytes += version->stored_bytes();
  return bytes;
}

void SliceStore::collect() {
  const std::scoped_lock commit_lock(commit_mutex_);
  require_whole();
  // First the journal: its old records may name extents that lie in what is cut off.
  rewrite_journal(journal_->epoch() + 1);
  space_->shrink();
}

std::uint64_t SliceStore::sequence() const {
  const std::scoped_lock lock(maps_mutex_);
  return sequence_;
}

std::string SliceStore::last_note() const {
  const std::scoped_lock lock(maps_mutex_);
  return note_;
}

std::vector<std::string> SliceStore::directories() const {
  std::vector<std::string> directories;
  for (std::uint32_t i = 0; i < space_->num_drives(); ++i) directories.push_back(space_->directory(i));
  return directories;
}

}  // namespace sluice
