// SPDX-License-Identifier: Apache-2.0
// How a store comes to be: made in empty directories, or recovered from what the last process left.
#include <algorithm>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/page_memory.h"
#include "base/random.h"
#include "base/units.h"
#include "tier/slice_store.h"
#include "tier/store_files.h"

namespace sluice {
namespace {

bool holds_journal(const StoreHome& home, const std::string& directory) {
  return home.files.exists(directory + "/journal.a") || home.files.exists(directory + "/journal.b");
}

void require_distinct(const StoreHome& home) {
  if (home.directories.empty()) throw InvalidInput("no directory was named for the store: use --cache DIR");
  const std::set<std::string> distinct(home.directories.begin(), home.directories.end());
  if (distinct.size() != home.directories.size())
    throw InvalidInput("a directory is named twice: name each drive once");
}

}  // namespace

std::string data_path(const std::string& directory) { return directory + "/slices.dat"; }

const std::vector<std::string>& store_file_names() {
  static const std::vector<std::string> kNames{"slices.dat", "journal.a", "journal.b", kStoreOwnerName};
  return kNames;
}

const std::vector<std::string>& leftover_file_names() {
  static const std::vector<std::string> kNames{"slices.dat.new", "journal.a.new", "journal.b.new",
                                               std::string(kStoreOwnerName) + ".part"};
  return kNames;
}

JournalPlace journal_place(const StoreHome& home, const std::vector<std::string>& directories) {
  return {home.files, home.engine, directories.front(), directories[directories.size() > 1 ? 1 : 0]};
}

DriveHeader read_header(const StoreHome& home, File& file) {
  PageMemory block(kBlockBytes);
  if (file.size_bytes() >= kBlockBytes) home.engine.submit(IoRequest::read(file, 0, block.bytes())).wait();
  return parse_drive_header(block.bytes(), file.path());
}

void write_header(const StoreHome& home, File& file, const DriveHeader& header) {
  PageMemory block(kBlockBytes);
  const std::vector<std::byte> bytes = encode_drive_header(header);
  std::copy(bytes.begin(), bytes.end(), block.bytes().begin());
  home.engine.submit(IoRequest::write(file, 0, block.bytes())).wait();
  home.engine.submit(IoRequest::sync(file)).wait();
}

namespace {

// No directory holds a journal. A data file may then be what an interrupted creation left, which is overwritten, or a
// drive of a store whose journals lie on drives that were not named, which must not be.
void require_no_store(const StoreHome& home) {
  std::map<std::string, DriveHeader> headers;
  for (const std::string& directory : home.directories) {
    if (!home.files.exists(data_path(directory))) continue;
    const auto file = home.files.open(data_path(directory), OpenMode::kReadOnly, home.caching);
    headers[directory] = read_header(home, *file);
  }
  for (const auto& entry : headers) {
    const DriveHeader& header = entry.second;
    const bool has_first = std::any_of(headers.begin(), headers.end(), [&](const auto& other) {
      return other.second.store_id == header.store_id && other.second.drive_idx == 0;
    });
    if (has_first && header.weights.size() == home.directories.size()) continue;
    throw InvalidInput(
        fmt::format("'{}' is drive {} of a store on {} drives: name them all to open it, or name another "
                    "directory",
                    entry.first, header.drive_idx, header.weights.size()));
  }
}

std::string new_data_path(const std::string& directory) { return data_path(directory) + ".new"; }

// Data files of a new store under temporary names; the destructor removes them unless the store was completed.
class NewDataFiles {
 public:
  explicit NewDataFiles(const StoreHome& home) : home_(home) {}
  ~NewDataFiles() {
    for (const std::string& path : paths_) remove_quietly(path);
  }
  NewDataFiles(const NewDataFiles&) = delete;
  NewDataFiles& operator=(const NewDataFiles&) = delete;

  // Creates and locks the file. The lock survives the rename, so of two processes only one creates the store. Throws
  // InvalidInput if another process creates or uses a store there.
  std::unique_ptr<FileLock> add(const std::string& directory) {
    const std::string path = new_data_path(directory);
    home_.files.open(path, OpenMode::kCreate, home_.caching);
    auto lock = home_.files.lock(path);
    paths_.push_back(path);
    if (home_.files.exists(data_path(directory))) home_.files.lock(data_path(directory));
    return lock;
  }
  void finish() { paths_.clear(); }

 private:
  void remove_quietly(const std::string& path) noexcept {
    try {
      home_.files.remove(path);
    } catch (const std::exception& error) {
      log_debug(fmt::format("'{}' stays behind: {}", path, error.what()));
    }
  }

  const StoreHome& home_;
  std::vector<std::string> paths_;
};

// The file appears under its name only with a whole header in it.
std::unique_ptr<File> create_data_file(const StoreHome& home, const std::string& directory, const DriveHeader& header) {
  const std::string path = data_path(directory);
  {
    const auto file = home.files.open(new_data_path(directory), OpenMode::kReadWrite, home.caching);
    file->truncate(0);
    file->truncate(kDataStart);
    write_header(home, *file, header);
  }
  home.files.rename(new_data_path(directory), path);
  home.files.sync_directory(directory);
  return home.files.open(path, OpenMode::kReadWrite, home.caching);
}

}  // namespace

SliceStore::SliceStore(const StoreHome& home, OpenDrives drives)
    : header_(std::move(drives.header)),
      locks_(std::move(drives.locks)),
      space_(std::make_shared<StoreSpace>(home.files, std::move(drives.drives), home.growth_bytes)),
      wear_(std::make_unique<WearMeter>(std::vector<std::uint64_t>(space_->num_drives(), 0))),
      journal_place_(journal_place(home, directories())) {
  std::vector<File*> files;
  for (std::uint32_t i = 0; i < space_->num_drives(); ++i) files.push_back(&space_->file(i));
  stripes_ =
      std::make_unique<StripeSet>(home.engine, std::move(files), StripePattern(header_.weights), header_.chunk_bytes);
}

bool SliceStore::holds_store(const StoreHome& home) {
  return std::any_of(home.directories.begin(), home.directories.end(),
                     [&](const std::string& directory) { return holds_journal(home, directory); });
}

std::unique_ptr<SliceStore> SliceStore::create(const StoreHome& home, const StoreShape& shape) {
  require_distinct(home);
  OpenDrives made;
  made.header.store_id = random_identity();
  made.header.chunk_bytes = shape.chunk_bytes;
  made.header.weights = shape.weights;
  if (made.header.weights.empty()) made.header.weights.assign(home.directories.size(), 1);
  CHECK(made.header.weights.size() == home.directories.size(), "one weight a drive");
  if (home.directories.size() > kMaxDrives) {
    throw InvalidInput(
        fmt::format("a store lies on at most {} drives, {} are named", kMaxDrives, home.directories.size()));
  }

  NewDataFiles new_files(home);
  for (const std::string& directory : home.directories) {
    home.files.require_directory(directory, OpenMode::kReadWrite);
    made.locks.push_back(new_files.add(directory));
    if (holds_journal(home, directory)) {
      throw InvalidInput(
          fmt::format("'{}' holds a slice store already: open it, or name another directory", directory));
    }
  }
  require_no_store(home);
  for (std::uint32_t i = 0; i < home.directories.size(); ++i) {
    made.header.drive_idx = i;
    made.drives.push_back({home.directories[i], create_data_file(home, home.directories[i], made.header)});
  }
  made.header.drive_idx = 0;
  std::unique_ptr<SliceStore> store(new SliceStore(home, std::move(made)));
  // The journal comes last: a directory with one holds a whole store.
  store->rewrite_journal(1);
  new_files.finish();
  return store;
}

OpenDrives open_drives(const StoreHome& home, StoreAccess access) {
  require_distinct(home);
  OpenDrives opened;
  std::vector<std::pair<DriveHeader, StoreSpace::Drive>> found;
  const OpenMode mode = access == StoreAccess::kReadWrite ? OpenMode::kReadWrite : OpenMode::kReadOnly;
  for (const std::string& directory : home.directories) {
    home.files.require_directory(directory, mode);
    if (!home.files.exists(data_path(directory))) {
      throw InvalidInput(fmt::format("'{}' holds no slice store: name the directory that does", directory));
    }
    // Where nothing can be written nobody else can change the store either.
    if (access == StoreAccess::kReadWrite || home.files.writable(directory)) {
      opened.locks.push_back(home.files.lock(data_path(directory)));
    }
    auto file = home.files.open(data_path(directory), mode, home.caching);
    DriveHeader header = read_header(home, *file);
    found.emplace_back(std::move(header), StoreSpace::Drive{directory, std::move(file)});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& left, const auto& right) { return left.first.drive_idx < right.first.drive_idx; });
  const DriveHeader& first = found.front().first;
  for (std::uint32_t i = 0; i < found.size(); ++i) {
    if (found[i].first.store_id != first.store_id) {
      throw InvalidInput(fmt::format("'{}' and '{}' belong to two different stores: name the directories of one",
                                     found.front().second.directory, found[i].second.directory));
    }
    if (found[i].first.drive_idx != i || first.weights.size() != found.size()) {
      throw InvalidInput(fmt::format("the store in '{}' lies on {} drives, of which {} are named: name them all",
                                     found.front().second.directory, first.weights.size(), found.size()));
    }
  }
  opened.header = first;
  for (auto& [header, drive] : found) opened.drives.push_back(std::move(drive));
  return opened;
}

std::unique_ptr<SliceStore> SliceStore::open(const StoreHome& home, StoreAccess access) {
  std::unique_ptr<SliceStore> store(new SliceStore(home, open_drives(home, access)));
  if (!holds_store(home)) {
    throw InvalidInput(
        fmt::format("the making of the store in '{}' was interrupted and it holds nothing: make it again",
                    store->space_->directory(0)));
  }
  const JournalContents contents = read_journal(store->journal_place_);
  if (contents.store_id != store->header_.store_id) {
    throw FormatError(fmt::format("the journal in '{}' belongs to another store: restore the directory from a backup",
                                  store->space_->directory(0)));
  }
  store->load(contents);
  if (access == StoreAccess::kLookOnly) {
    store->failure_ = "it was opened to be looked at";
    return store;
  }
  for (const std::string& sentence : contents.damage) {
    log_warning(fmt::format("{}; the other copy was whole and nothing is lost, but watch this drive", sentence));
  }
  for (const std::string& sentence : contents.unfinished) log_debug(sentence);
  // Even where nothing is amiss: a process that was killed may have left records that only the page cache has. What is
  // recovered must be durable before the extents that it does not need are written over.
  store->rewrite_journal(contents.epoch + 1);
  return store;
}

void SliceStore::load(const JournalContents& contents) {
  using Records = std::map<std::string, const SliceRecord*>;
  struct Kept {
    SnapshotInfo info;
    Records records;
  };
  Records current;
  std::map<std::string, Kept> kept;
  std::vector<std::uint64_t> wear = contents.base.drive_bytes_written;
  std::string note = contents.base.note;
  for (const std::uint32_t idx : contents.base.current_idxs) {
    current[contents.base.slices[idx].key] = &contents.base.slices[idx];
  }
  for (const SnapshotRecord& snapshot : contents.base.snapshots) {
    Kept& entry = kept[snapshot.name];
    entry.info = {snapshot.name, snapshot.sequence, snapshot.note};
    for (const std::uint32_t idx : snapshot.slice_idxs) {
      entry.records[contents.base.slices[idx].key] = &contents.base.slices[idx];
    }
  }
  for (const auto& [sequence, record] : contents.commits) {
    if (!record.restored.empty()) {
      const auto found = kept.find(record.restored);
      if (found == kept.end()) {
        throw FormatError(
            fmt::format("the journal of '{}' goes back to a snapshot '{}' that it does not have: the "
                        "store cannot be read; restore its directories from a backup",
                        space_->directory(0), record.restored));
      }
      current = found->second.records;
    }
    for (const SliceRecord& slice : record.put) current[slice.key] = &slice;
    for (const std::string& key : record.removed) current.erase(key);
    for (const std::string& name : record.pinned) kept[name] = {{name, sequence, record.note}, current};
    for (const std::string& name : record.unpinned) kept.erase(name);
    wear = record.drive_bytes_written;
    note = record.note;
  }

  // Only what is still referred to takes its extents, each version once.
  std::map<const SliceRecord*, SliceRef> loaded;
  const auto load_all = [&](const Records& records) {
    SliceMap slices;
    for (const auto& [key, record] : records) {
      SliceRef& version = loaded[record];
      if (!version) version = load_slice(*record);
      slices[key] = version;
    }
    return slices;
  };
  current_ = load_all(current);
  for (auto& [name, entry] : kept) snapshots_[name] = {entry.info, load_all(entry.records)};
  sequence_ = contents.sequence;
  note_ = note;
  wear.resize(space_->num_drives());
  wear_ = std::make_unique<WearMeter>(wear);
}

SliceRef SliceStore::load_slice(const SliceRecord& record) {
  std::vector<std::uint64_t> held(space_->num_drives(), 0);
  for (const Extent& extent : record.extents) {
    if (extent.drive_idx < held.size()) held[extent.drive_idx] += extent.size_bytes;
  }
  const bool sane = record.size_bytes > 0 && record.first_chunk < stripes_->pattern().round_chunks() &&
                    record.chunk_sums.size() == div_ceil(record.size_bytes, chunk_bytes());
  if (!sane || held != stripes_->shares(record.size_bytes, record.first_chunk)) {
    throw FormatError(
        fmt::format("the journal of '{}' gives slice '{}' extents that do not hold its {}: the store "
                    "cannot be read; restore its directories from a backup",
                    space_->directory(0), record.key, format_bytes(record.size_bytes)));
  }
  return std::make_shared<const SliceVersion>(record, space_->take_exactly(record.extents));
}

}  // namespace sluice
