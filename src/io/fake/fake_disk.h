// SPDX-License-Identifier: Apache-2.0
// A disk in memory that can lose power and fail on demand. It keeps, for each file, what is durable and what was
// written since the last sync; a power cut keeps an arbitrary part of the latter, sector by sector, and of each
// directory an arbitrary beginning of the creations, renames and removals since it was synced. Every operation passes a
// hook that may let it fail. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

// The power is gone: thrown by every operation until reboot().
class PowerCut : public Error {
 public:
  PowerCut() : Error("the simulated power is off") {}
};

enum class FakeOp { kRead, kWrite, kSync, kPreallocate, kTruncate, kCreate, kRename, kRemove, kSyncDirectory };

struct FakeOperation {
  std::uint64_t idx = 0;  // counts every operation since construction
  FakeOp op = FakeOp::kRead;
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};

enum class Fault {
  kNone,
  kShort,  // half of it is done
  kEio,
  kEnospc,
  kEagain,
  kDelay,      // transfers only: held until complete_delayed()
  kBitFlip,    // reads: one bit of what is returned; writes: one bit of what is stored
  kTornWrite,  // writes: the last sector is not stored, success is reported
  kPowerCut,   // the operation may or may not have happened
};

class FakeDisk : public FileSystem {
 public:
  using Hook = std::function<Fault(const FakeOperation&)>;

  FakeDisk();

  void set_hook(Hook hook);
  // The process died, the machine did not: nothing is lost, what was not synced is still not durable.
  void restart();
  // Applies the power cut's losses, chosen by `seed`, and lets operations work again. Locks are dropped.
  void reboot(std::uint64_t seed);
  std::uint64_t num_operations() const;
  void set_free_bytes(std::uint64_t free_bytes);

  // Direct access for tests: flips, truncations.
  std::vector<std::byte> contents(const std::string& path) const;
  void flip_bit(const std::string& path, std::uint64_t bit_idx);

  std::unique_ptr<File> open(const std::string& path, OpenMode mode, Caching caching) override;
  bool exists(const std::string& path) override;
  bool writable(const std::string& directory) override;
  void require_directory(const std::string& path, OpenMode mode) override;
  std::vector<std::string> list(const std::string& directory) override;
  void rename(const std::string& from, const std::string& to) override;
  void make_directory(const std::string& path) override;  // a folder is there as long as something is in it
  void remove(const std::string& path) override;
  void sync_directory(const std::string& directory) override;
  std::uint64_t free_bytes(const std::string& directory) override;
  std::unique_ptr<FileLock> lock(const std::string& path) override;

  static constexpr std::uint64_t kSectorBytes = 512;

  struct Inode {
    std::vector<std::byte> current;
    std::vector<std::byte> durable;
    std::set<std::uint64_t> unsynced_sectors;
  };

 private:
  friend class FakeFile;
  friend class FakeEngine;
  friend class FakeLock;

  struct NameChange {
    std::string directory;
    std::string removed;  // empty: none
    std::string added;    // empty: none
    std::shared_ptr<Inode> inode;
  };

  Fault pass_hook(FakeOp op, const std::string& path, std::uint64_t offset, std::uint64_t size_bytes);
  void require_power() const;
  // Passes the hook and throws what it injects; for operations other than transfers.
  void begin(FakeOp op, const std::string& path, std::uint64_t size_bytes = 0);
  void change_name(NameChange change);
  std::int64_t transfer(Inode& inode, const IoRequest& request, Fault fault);
  void store(Inode& inode, std::uint64_t offset, std::span<const std::byte> bytes);
  void lose_unsynced(Inode& inode, Random& random);

  mutable std::recursive_mutex mutex_;
  Hook hook_;
  bool powered_ = true;
  std::uint64_t num_operations_ = 0;
  std::uint64_t free_bytes_ = std::uint64_t{1} << 40;
  std::uint64_t boot_idx_ = 0;
  Random fault_random_{1};
  std::map<std::string, std::shared_ptr<Inode>> names_;
  std::map<std::string, std::shared_ptr<Inode>> durable_names_;
  std::vector<NameChange> unsynced_names_;
  std::set<std::shared_ptr<Inode>> locked_;
};

class FakeFile : public File {
 public:
  FakeFile(FakeDisk& disk, std::string path, Caching caching, std::shared_ptr<FakeDisk::Inode> inode);
  std::uint64_t size_bytes() const override;
  void preallocate(std::uint64_t size_bytes) override;
  void truncate(std::uint64_t size_bytes) override;

 private:
  friend class FakeEngine;
  FakeDisk& disk_;
  std::shared_ptr<FakeDisk::Inode> inode_;  // shared with the disk's name tables
};

// Runs each transfer to its end inside submit(), except those that a hook delays: they end in complete_delayed(), or
// with the engine.
class FakeEngine : public IoEngine {
 public:
  explicit FakeEngine(FakeDisk& disk) : disk_(disk) {}
  ~FakeEngine() override { complete_delayed(); }
  std::string_view name() const override { return "fake"; }
  // Carries out what was delayed, oldest last: completions out of order.
  void complete_delayed();

 protected:
  void start(std::vector<Transfer> transfers) override;

 private:
  void carry_out(Transfer& transfer, Fault first);
  Fault pass_hook(const IoRequest& request);

  FakeDisk& disk_;
  std::mutex delayed_mutex_;
  std::vector<Transfer> delayed_;
};

}  // namespace sluice
