// SPDX-License-Identifier: Apache-2.0
// The NVMe tier: slices by key, copy-on-write, over one or several drives. A new version of a slice goes to free
// extents; commit() makes every finished version current at once; what neither the last commit, a snapshot nor a reader
// refers to any more is free again. A crash at any instant leaves exactly the last commit.
//
//   begin() --> SliceWriter --write…--> finish() --> staged --commit()--> current --newer commit--> free
//                    | dropped: extents freed           | visible to find()      | pin(): kept until unpin(),
//                                                                                | restore(): current again
//
// commit(): 1. sync the data files  2. append the record to both journal copies  3. sync those  4. swap maps.
// Only after 4 are the old extents free, so nothing that a recovery may need is ever overwritten.
//
// Thread-safe: any number of threads read and write; commits are taken one after another.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/io_engine.h"
#include "io/stripe_set.h"
#include "tier/journal.h"
#include "tier/lane_trace.h"
#include "tier/store_format.h"
#include "tier/store_space.h"
#include "tier/wear_meter.h"

namespace sluice {

class SliceStore;

struct StoreHome {
  FileSystem& files;
  IoEngine& engine;
  Caching caching = Caching::kDirect;
  std::vector<std::string> directories;           // one a drive
  std::uint64_t growth_bytes = 64 * 1024 * 1024;  // what a full data file grows by, at least
};

enum class StoreAccess {
  kReadWrite,  // mends what a crash or damage left of the journal
  kLookOnly,   // changes nothing on the drives; takes no commits
};

struct StoreShape {
  std::vector<std::uint32_t> weights;       // of the drives; empty: equal
  std::uint64_t chunk_bytes = 1024 * 1024;  // the unit of striping and of checksums
};

// One version of a slice, immutable. Holds its extents for as long as anybody holds it.
class SliceVersion {
 public:
  SliceVersion(SliceRecord record, ExtentGrant grant) : record_(std::move(record)), grant_(std::move(grant)) {}

  const std::string& key() const { return record_.key; }
  std::uint64_t size_bytes() const { return record_.size_bytes; }
  std::uint64_t stored_bytes() const;  // padded to what direct I/O moves
  const SliceRecord& record() const { return record_; }

 private:
  friend class SliceStore;
  SliceRecord record_;
  ExtentGrant grant_;
};
// Shared by the store's maps and by whoever reads it.
using SliceRef = std::shared_ptr<const SliceVersion>;

// A version on its way in. Dropped unfinished, it leaves no trace. write() may be called from several threads.
class SliceWriter {
 public:
  SliceWriter(SliceWriter&&) noexcept;
  SliceWriter& operator=(SliceWriter&&) = delete;
  ~SliceWriter();

  // Bytes from `offset`, a multiple of the chunk; whole chunks, the last one padded with zeros to stored_bytes().
  Ticket write(std::uint64_t offset, std::span<const std::byte> bytes);
  // All of it is written and every ticket has settled well: the next commit makes it current.
  void finish();
  // The same, but no commit will know of it: it lasts as long as the reference does.
  SliceRef finish_apart();

  std::uint64_t stored_bytes() const;

 private:
  friend class SliceStore;
  struct Draft;
  SliceWriter(SliceStore& store, std::unique_ptr<Draft> draft);

  SliceRef close();

  SliceStore* store_;
  std::unique_ptr<Draft> draft_;
};

// The drives of a store in the order of their index, locked and with their headers read.
struct OpenDrives {
  DriveHeader header;
  std::vector<StoreSpace::Drive> drives;
  std::vector<std::unique_ptr<FileLock>> locks;  // exclusive locks on the data files
};

// Throws InvalidInput for directories that are missing, read-only, locked, foreign, of another version, or not all of
// one store's; FormatError for a damaged header.
OpenDrives open_drives(const StoreHome& home, StoreAccess access);

struct SnapshotInfo {
  std::string name;
  std::uint64_t sequence = 0;
  std::string note;
};

class SliceStore {
 public:
  // Makes an empty store; the directories exist, are writable and hold none.
  static std::unique_ptr<SliceStore> create(const StoreHome& home, const StoreShape& shape);
  // Recovers the last commit, mends what a crash left, and warns of what damage was found and healed.
  static std::unique_ptr<SliceStore> open(const StoreHome& home, StoreAccess access = StoreAccess::kReadWrite);
  static bool holds_store(const StoreHome& home);
  ~SliceStore();

  // The newest version: staged if there is one, else committed, else null.
  SliceRef find(const std::string& key) const;
  SliceRef find_in_snapshot(const std::string& snapshot, const std::string& key) const;
  std::vector<SliceRef> committed() const;  // sorted by key
  std::vector<SliceRef> kept() const;       // committed or in a snapshot, each version once

  // Run bytes [offset, offset + into.size()) of a version, offset a multiple of the chunk; then, once the ticket has
  // settled, verify() throws FormatError naming slice, file and offset if a chunk is not what was written.
  Ticket read(const SliceVersion& version, std::uint64_t offset, std::span<std::byte> into) const;
  void verify(const SliceVersion& version, std::uint64_t offset, std::span<const std::byte> bytes) const;
  // The same for who reads the whole version another way, and sums its chunks there.
  std::vector<IoRequest> read_requests(const SliceVersion& version, std::span<std::byte> into) const;
  void verify_sums(const SliceVersion& version, std::span<const std::uint64_t> chunk_sums) const;

  SliceWriter begin(const std::string& key, std::uint64_t size_bytes);
  void remove(const std::string& key);  // with the next commit
  // Returns the commit's sequence number. `note` is the caller's and comes back from last_note(). On a failure the
  // store takes no more commits: what was committed before stands, open it again.
  std::uint64_t commit(const std::string& note);

  // Keeps the last commit readable under a name, until unpin(). Durable on return, moves no data.
  void pin(const std::string& name);
  void unpin(const std::string& name);
  // Goes back: the slices and the note of a snapshot are current again, and the snapshots `dropped` are gone, in one
  // commit that moves no data. Forgets what was staged. The snapshot stays.
  void restore(const std::string& name, const std::vector<std::string>& dropped);
  std::vector<SnapshotInfo> snapshots() const;

  // Sets space for so many more bytes aside now, so that a run that does not fit fails before it starts.
  void reserve_space(std::uint64_t more_bytes);
  // What must be freed on each drive so that so many more bytes fit beside what is kept, once nobody writes.
  std::vector<std::uint64_t> missing_bytes(std::uint64_t more_bytes) const;
  // Gives free space at the end of the files back to the drives, and rewrites the journal to its shortest form.
  void collect();

  // Every read and write of a slice from here on is a span of its lane; null: nobody traces. Outlives those.
  void trace_to(LaneTrace* trace) { trace_ = trace; }

  std::uint64_t sequence() const;
  std::string last_note() const;
  std::uint64_t chunk_bytes() const { return stripes_->chunk_bytes(); }
  std::uint64_t taken_bytes() const { return space_->taken_bytes(); }
  std::uint64_t peak_taken_bytes() const { return space_->peak_bytes(); }
  std::vector<std::uint64_t> drive_bytes_written() const { return wear_->drive_bytes(); }
  std::uint64_t kept_bytes() const;  // of the last commit and of snapshots
  std::uint64_t file_bytes() const { return space_->file_bytes(); }
  std::vector<std::string> directories() const;

 private:
  friend class SliceWriter;
  using SliceMap = std::map<std::string, SliceRef>;
  struct Snapshot {
    SnapshotInfo info;
    SliceMap slices;
  };

  SliceStore(const StoreHome& home, OpenDrives drives);
  void load(const JournalContents& contents);
  SliceRef load_slice(const SliceRecord& record);
  void require_whole() const;
  [[noreturn]] void refuse_chunk(const SliceVersion& version, std::uint64_t offset) const;
  // Appends the record and counts it; the caller then changes the maps. Takes no more after a failure.
  std::uint64_t append(CommitRecord record);
  BaseRecord base_record() const;
  void rewrite_journal(std::uint64_t epoch);
  void count_journal_wear(std::uint64_t copy_bytes);
  void stage(SliceRef version);
  void close_writer();

  DriveHeader header_;
  std::vector<std::unique_ptr<FileLock>> locks_;
  std::shared_ptr<StoreSpace> space_;  // shared with the grants of versions
  std::unique_ptr<StripeSet> stripes_;
  std::unique_ptr<WearMeter> wear_;
  JournalPlace journal_place_;
  LaneTrace* trace_ = nullptr;

  std::mutex commit_mutex_;  // taken before maps_mutex_; held for a whole commit
  std::unique_ptr<Journal> journal_;
  std::uint64_t journal_base_bytes_ = 0;
  std::string failure_;  // why no more commits are taken; empty: they are

  mutable std::mutex maps_mutex_;
  std::uint64_t sequence_ = 0;
  std::string note_;
  SliceMap current_;
  SliceMap staged_;                 // null: to be removed
  std::vector<SliceMap> in_doubt_;  // of a commit that failed: its record may stand, so its extents stay taken
  std::map<std::string, Snapshot> snapshots_;
  std::uint64_t num_writers_ = 0;
  std::uint64_t next_first_chunk_ = 0;
};

}  // namespace sluice
