// SPDX-License-Identifier: Apache-2.0
#include "io/fake/fake_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/units.h"
#include "io/io_failure.h"

namespace sluice {
namespace {

std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

int fault_errno(Fault fault) {
  switch (fault) {
    case Fault::kEio:
      return EIO;
    case Fault::kEnospc:
      return ENOSPC;
    case Fault::kEagain:
      return EAGAIN;
    default:
      return 0;
  }
}

// Makes what a sector holds now durable, as far as the durable file reaches.
void keep_sector(FakeDisk::Inode& inode, std::uint64_t sector) {
  const std::uint64_t begin = sector * FakeDisk::kSectorBytes;
  const std::uint64_t end =
      std::min<std::uint64_t>({begin + FakeDisk::kSectorBytes, inode.current.size(), inode.durable.size()});
  if (begin >= end) return;
  std::copy(inode.current.begin() + static_cast<std::ptrdiff_t>(begin),
            inode.current.begin() + static_cast<std::ptrdiff_t>(end),
            inode.durable.begin() + static_cast<std::ptrdiff_t>(begin));
}

}  // namespace

class FakeLock : public FileLock {
 public:
  FakeLock(FakeDisk& disk, std::shared_ptr<FakeDisk::Inode> inode, std::uint64_t boot_idx)
      : disk_(disk), inode_(std::move(inode)), boot_idx_(boot_idx) {}
  ~FakeLock() override {
    const std::scoped_lock guard(disk_.mutex_);
    if (disk_.boot_idx_ == boot_idx_) disk_.locked_.erase(inode_);
  }
  FakeLock(const FakeLock&) = delete;
  FakeLock& operator=(const FakeLock&) = delete;

 private:
  FakeDisk& disk_;
  std::shared_ptr<FakeDisk::Inode> inode_;  // shared with the disk's name tables
  std::uint64_t boot_idx_;
};

FakeDisk::FakeDisk() : hook_([](const FakeOperation&) { return Fault::kNone; }) {}

void FakeDisk::set_hook(Hook hook) {
  const std::scoped_lock guard(mutex_);
  hook_ = hook ? std::move(hook) : [](const FakeOperation&) { return Fault::kNone; };
}

std::uint64_t FakeDisk::num_operations() const {
  const std::scoped_lock guard(mutex_);
  return num_operations_;
}

void FakeDisk::set_free_bytes(std::uint64_t free_bytes) {
  const std::scoped_lock guard(mutex_);
  free_bytes_ = free_bytes;
}

std::vector<std::byte> FakeDisk::contents(const std::string& path) const {
  const std::scoped_lock guard(mutex_);
  return names_.at(path)->current;
}

void FakeDisk::flip_bit(const std::string& path, std::uint64_t bit_idx) {
  const std::scoped_lock guard(mutex_);
  const std::byte mask{static_cast<unsigned char>(1U << (bit_idx % 8))};
  Inode& inode = *names_.at(path);
  inode.current.at(bit_idx / 8) ^= mask;
  if (bit_idx / 8 < inode.durable.size()) inode.durable[bit_idx / 8] ^= mask;
}

void FakeDisk::require_power() const {
  if (!powered_) throw PowerCut();
}

Fault FakeDisk::pass_hook(FakeOp op, const std::string& path, std::uint64_t offset, std::uint64_t size_bytes) {
  require_power();
  const Fault fault = hook_({num_operations_++, op, path, offset, size_bytes});
  if (fault == Fault::kPowerCut) powered_ = false;
  return fault;
}

void FakeDisk::begin(FakeOp op, const std::string& path, std::uint64_t size_bytes) {
  const Fault fault = pass_hook(op, path, 0, size_bytes);
  if (const int errno_value = fault_errno(fault)) throw_io_failure(errno_value, "change", path);
}

void FakeDisk::change_name(NameChange change) {
  if (!change.removed.empty()) names_.erase(change.removed);
  if (!change.added.empty()) names_[change.added] = change.inode;
  unsynced_names_.push_back(std::move(change));
  require_power();  // a cut in this very operation: it may have happened
}

std::unique_ptr<File> FakeDisk::open(const std::string& path, OpenMode mode, Caching caching) {
  const std::scoped_lock guard(mutex_);
  require_power();
  const auto found = names_.find(path);
  if (found != names_.end()) return std::make_unique<FakeFile>(*this, path, caching, found->second);
  if (mode != OpenMode::kCreate) throw_io_failure(ENOENT, "open", path);
  begin(FakeOp::kCreate, path);
  const auto inode = std::make_shared<Inode>();
  change_name({.directory = parent(path), .removed = {}, .added = path, .inode = inode});
  return std::make_unique<FakeFile>(*this, path, caching, inode);
}

bool FakeDisk::exists(const std::string& path) {
  const std::scoped_lock guard(mutex_);
  require_power();
  const auto at = names_.lower_bound(path);
  if (at != names_.end() && at->first == path) return true;
  const auto inside = names_.lower_bound(path + "/");
  return inside != names_.end() && inside->first.starts_with(path + "/");
}

bool FakeDisk::writable(const std::string&) { return true; }

void FakeDisk::require_directory(const std::string&, OpenMode) {
  const std::scoped_lock guard(mutex_);
  require_power();
}

std::vector<std::string> FakeDisk::list(const std::string& directory) {
  const std::scoped_lock guard(mutex_);
  require_power();
  std::vector<std::string> names;
  for (const auto& [path, inode] : names_) {
    if (parent(path) == directory) names.push_back(path.substr(directory.size() + 1));
  }
  return names;
}

void FakeDisk::rename(const std::string& from, const std::string& to) {
  const std::scoped_lock guard(mutex_);
  CHECK(parent(from) == parent(to), "renames stay in a directory");
  begin(FakeOp::kRename, to);
  change_name({.directory = parent(to), .removed = from, .added = to, .inode = names_.at(from)});
}

void FakeDisk::make_directory(const std::string&) {
  const std::scoped_lock guard(mutex_);
  require_power();
}

void FakeDisk::remove(const std::string& path) {
  const std::scoped_lock guard(mutex_);
  begin(FakeOp::kRemove, path);
  if (names_.contains(path)) change_name({.directory = parent(path), .removed = path, .added = {}, .inode = nullptr});
}

void FakeDisk::sync_directory(const std::string& directory) {
  const std::scoped_lock guard(mutex_);
  begin(FakeOp::kSyncDirectory, directory);
  require_power();
  std::erase_if(unsynced_names_, [&](const NameChange& change) {
    if (change.directory != directory) return false;
    if (!change.removed.empty()) durable_names_.erase(change.removed);
    if (!change.added.empty()) durable_names_[change.added] = change.inode;
    return true;
  });
}

std::uint64_t FakeDisk::free_bytes(const std::string&) {
  const std::scoped_lock guard(mutex_);
  require_power();
  return free_bytes_;
}

std::unique_ptr<FileLock> FakeDisk::lock(const std::string& path) {
  const std::scoped_lock guard(mutex_);
  require_power();
  const auto found = names_.find(path);
  if (found == names_.end()) throw_io_failure(ENOENT, "lock", path);
  if (!locked_.insert(found->second).second) throw InvalidInput(fmt::format("'{}' is in use by this process", path));
  return std::make_unique<FakeLock>(*this, found->second, boot_idx_);
}

void FakeDisk::store(Inode& inode, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (inode.current.size() < offset + bytes.size()) inode.current.resize(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), inode.current.begin() + static_cast<std::ptrdiff_t>(offset));
  for (std::uint64_t sector = offset / kSectorBytes; sector * kSectorBytes < offset + bytes.size(); ++sector) {
    inode.unsynced_sectors.insert(sector);
  }
}

std::int64_t FakeDisk::transfer(Inode& inode, const IoRequest& request, Fault fault) {
  const std::scoped_lock guard(mutex_);
  if (const int errno_value = fault_errno(fault)) return -errno_value;
  std::uint64_t size = request.memory.size();
  if (fault == Fault::kShort) size /= 2;
  switch (request.op) {
    case IoOp::kSync:
      require_power();
      inode.durable.resize(inode.current.size());
      for (const std::uint64_t sector : inode.unsynced_sectors) keep_sector(inode, sector);
      inode.unsynced_sectors.clear();
      return 0;
    case IoOp::kRead: {
      require_power();
      if (request.offset >= inode.current.size()) return 0;
      size = std::min<std::uint64_t>(size, inode.current.size() - request.offset);
      std::memcpy(request.memory.data(), inode.current.data() + request.offset, size);
      if (fault == Fault::kBitFlip && size > 0) {
        request.memory[fault_random_.below(size)] ^=
            std::byte{static_cast<unsigned char>(1U << fault_random_.below(8))};
      }
      return static_cast<std::int64_t>(size);
    }
    case IoOp::kWrite: {
      std::vector<std::byte> bytes(request.memory.begin(), request.memory.begin() + static_cast<std::ptrdiff_t>(size));
      if (fault == Fault::kBitFlip && size > 0) {
        bytes[fault_random_.below(size)] ^= std::byte{static_cast<unsigned char>(1U << fault_random_.below(8))};
      }
      if (fault == Fault::kTornWrite) bytes.resize(size > kSectorBytes ? size - kSectorBytes : 0);
      store(inode, request.offset, bytes);
      require_power();
      return static_cast<std::int64_t>(size);
    }
  }
  return -EINVAL;
}

void FakeDisk::lose_unsynced(Inode& inode, Random& random) {
  // Three kinds of cut: nothing unsynced survives, all of it does, or a coin for every sector.
  const std::uint64_t kind = random.below(4);
  if (kind == 1) {
    inode.durable = inode.current;
  } else if (kind >= 2) {
    if (inode.current.size() > inode.durable.size() && random.one_in(2)) inode.durable.resize(inode.current.size());
    for (const std::uint64_t sector : inode.unsynced_sectors) {
      if (random.one_in(2)) keep_sector(inode, sector);
    }
  }
  inode.current = inode.durable;
  inode.unsynced_sectors.clear();
}

void FakeDisk::restart() {
  const std::scoped_lock guard(mutex_);
  locked_.clear();
  ++boot_idx_;
  powered_ = true;
}

void FakeDisk::reboot(std::uint64_t seed) {
  const std::scoped_lock guard(mutex_);
  Random random(seed);
  // Each directory keeps a beginning of its changes, whatever the others keep.
  std::map<std::string, std::uint64_t> num_changes;
  for (const NameChange& change : unsynced_names_) ++num_changes[change.directory];
  std::map<std::string, std::uint64_t> num_kept;
  for (const auto& [directory, count] : num_changes) num_kept[directory] = random.below(count + 1);
  for (const NameChange& change : unsynced_names_) {
    if (num_kept[change.directory] == 0) continue;
    --num_kept[change.directory];
    if (!change.removed.empty()) durable_names_.erase(change.removed);
    if (!change.added.empty()) durable_names_[change.added] = change.inode;
  }
  unsynced_names_.clear();
  names_ = durable_names_;
  for (const auto& [path, inode] : names_) lose_unsynced(*inode, random);
  restart();
}

FakeFile::FakeFile(FakeDisk& disk, std::string path, Caching caching, std::shared_ptr<FakeDisk::Inode> inode)
    : File(std::move(path), caching), disk_(disk), inode_(std::move(inode)) {}

std::uint64_t FakeFile::size_bytes() const {
  const std::scoped_lock guard(disk_.mutex_);
  disk_.require_power();
  return inode_->current.size();
}

void FakeFile::preallocate(std::uint64_t size_bytes) {
  const std::scoped_lock guard(disk_.mutex_);
  disk_.begin(FakeOp::kPreallocate, path(), size_bytes);
  if (size_bytes > inode_->current.size()) inode_->current.resize(size_bytes);
  disk_.require_power();
}

void FakeFile::truncate(std::uint64_t size_bytes) {
  const std::scoped_lock guard(disk_.mutex_);
  disk_.begin(FakeOp::kTruncate, path(), size_bytes);
  // What is cut off comes back as zeroes if the file grows again.
  const std::uint64_t end_sector = div_ceil(inode_->current.size(), FakeDisk::kSectorBytes);
  for (std::uint64_t sector = size_bytes / FakeDisk::kSectorBytes; sector < end_sector; ++sector) {
    inode_->unsynced_sectors.insert(sector);
  }
  inode_->current.resize(size_bytes);
  disk_.require_power();
}

Fault FakeEngine::pass_hook(const IoRequest& request) {
  const FakeOp op = request.op == IoOp::kRead    ? FakeOp::kRead
                    : request.op == IoOp::kWrite ? FakeOp::kWrite
                                                 : FakeOp::kSync;
  const std::scoped_lock guard(disk_.mutex_);
  return disk_.pass_hook(op, request.file->path(), request.offset, request.memory.size());
}

void FakeEngine::carry_out(Transfer& transfer, Fault fault) {
  try {
    auto& file = dynamic_cast<FakeFile&>(*transfer.request.file);
    while (advance(transfer, disk_.transfer(*file.inode_, transfer.request, fault)) == TransferStep::kAgain) {
      fault = pass_hook(transfer.request);
    }
  } catch (const PowerCut&) {
    transfer.finish(std::current_exception());
  }
}

void FakeEngine::start(std::vector<Transfer> transfers) {
  for (Transfer& transfer : transfers) {
    if (transfer.ticket->cancel_requested()) {
      finish_cancelled(transfer);
      continue;
    }
    Fault fault = Fault::kNone;
    try {
      fault = pass_hook(transfer.request);
    } catch (const PowerCut&) {
      transfer.finish(std::current_exception());
      continue;
    }
    if (fault == Fault::kDelay) {
      const std::scoped_lock guard(delayed_mutex_);
      delayed_.push_back(std::move(transfer));
    } else {
      carry_out(transfer, fault);
    }
  }
}

void FakeEngine::complete_delayed() {
  std::vector<Transfer> ready;
  {
    const std::scoped_lock guard(delayed_mutex_);
    ready.swap(delayed_);
  }
  std::reverse(ready.begin(), ready.end());
  for (Transfer& transfer : ready) {
    if (transfer.ticket->cancel_requested()) {
      finish_cancelled(transfer);
    } else {
      carry_out(transfer, Fault::kNone);
    }
  }
}

}  // namespace sluice
