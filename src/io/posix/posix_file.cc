// SPDX-License-Identifier: Apache-2.0
#include "io/posix/posix_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "io/io_failure.h"

namespace sluice {
namespace {

int open_retrying(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// The kernel would cut such a path off at the NUL byte and open another file.
void require_no_zero_byte(const std::string& path) {
  if (path.find('\0') == std::string::npos) return;
  throw InvalidInput(
      fmt::format("'{}' has a zero byte, which no path can have; check where the path comes from", path));
}

class PosixLock : public FileLock {
 public:
  explicit PosixLock(UniqueFd fd) : fd_(std::move(fd)) {}

 private:
  UniqueFd fd_;
};

bool is_same_file(const struct stat& left, const struct stat& right) {
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

bool has_open(const std::filesystem::path& process, const struct stat& file) {
  std::error_code failure;
  std::filesystem::directory_iterator entry(process / "fd", failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    struct stat opened {};
    if (::stat(entry->path().c_str(), &opened) == 0 && is_same_file(opened, file)) return true;
  }
  return false;
}

// The kernel does not report the holder of an open file description lock, so this looks for other processes that have
// the file open.
std::string lock_holder(const struct stat& file) {
  std::error_code failure;
  const std::string own = std::to_string(::getpid());
  std::filesystem::directory_iterator entry("/proc", failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    const bool is_process = std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (is_process && name != own && has_open(entry->path(), file)) return "process " + name;
  }
  return "another process";
}

// Some network and container file systems do not support locks; exclusion is impossible there.
bool has_no_locks(int errno_value) {
  return errno_value == ENOLCK || errno_value == ENOSYS || errno_value == EOPNOTSUPP || errno_value == EINVAL;
}

}  // namespace

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

int UniqueFd::release() { return std::exchange(fd_, -1); }

std::uint64_t PosixFile::size_bytes() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) throw_io_failure(errno, "measure", path());
  return static_cast<std::uint64_t>(info.st_size);
}

void PosixFile::preallocate(std::uint64_t size_bytes) {
  int status = 0;
  do {
    status = ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(size_bytes));
  } while (status != 0 && errno == EINTR);
  if (status == 0) return;
  // Some network and memory file systems cannot allocate ahead; a full drive then shows at the write.
  if (errno == EOPNOTSUPP) {
    log_debug(fmt::format("the file system of '{}' cannot set space aside", path()));
    return truncate(size_bytes);
  }
  throw_io_failure(errno, fmt::format("set aside {} bytes for", size_bytes), path());
}

void PosixFile::truncate(std::uint64_t size_bytes) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(size_bytes)) != 0) throw_io_failure(errno, "resize", path());
}

std::unique_ptr<File> PosixFileSystem::open(const std::string& path, OpenMode mode, Caching caching) {
  require_no_zero_byte(path);
  int flags = (mode == OpenMode::kReadOnly ? O_RDONLY : O_RDWR) | O_NONBLOCK;  // a pipe is not waited for
  if (mode == OpenMode::kCreate) flags |= O_CREAT;
  if (caching == Caching::kDirect) flags |= O_DIRECT;
  UniqueFd fd(open_retrying(path, flags));
  if (!fd.valid()) {
    const bool is_new = mode == OpenMode::kCreate;
    throw_io_failure(errno, is_new ? "create" : "open", path, is_new ? PathRole::kNewFile : PathRole::kExisting);
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw_io_failure(errno, "open", path);
  if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) {
    throw InvalidInput(fmt::format("'{}' is a pipe or a device, not a file; name a file", path));
  }
  if (S_ISDIR(info.st_mode)) throw InvalidInput(fmt::format("'{}' is a directory; name a file in it", path));
  // Older kernels give up at once on what io_uring does with a file that is so marked.
  if (::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) throw_io_failure(errno, "open", path);
  return std::make_unique<PosixFile>(path, caching, std::move(fd));
}

bool PosixFileSystem::exists(const std::string& path) {
  require_no_zero_byte(path);
  if (::access(path.c_str(), F_OK) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw_io_failure(errno, "look for", path);  // a drive that fails has not lost its files
}

bool PosixFileSystem::writable(const std::string& directory) { return ::access(directory.c_str(), W_OK) == 0; }

void PosixFileSystem::require_directory(const std::string& path, OpenMode mode) {
  require_no_zero_byte(path);
  const bool is_read = mode == OpenMode::kReadOnly;
  const PathRole role = is_read ? PathRole::kExisting : PathRole::kDirectory;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw_io_failure(errno, "use", path, role);
  if (!S_ISDIR(info.st_mode)) throw_io_failure(ENOTDIR, "use", path, PathRole::kDirectory);
  if (::access(path.c_str(), is_read ? R_OK | X_OK : R_OK | W_OK | X_OK) != 0) {
    throw_io_failure(errno, is_read ? "read" : "write in", path, role);
  }
}

std::vector<std::string> PosixFileSystem::list(const std::string& directory) {
  std::error_code status;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(directory, status);
  for (; !status && entry != std::filesystem::directory_iterator(); entry.increment(status)) {
    names.push_back(entry->path().filename().string());
  }
  if (status) throw_io_failure(status.value(), "list", directory, PathRole::kDirectory);
  std::sort(names.begin(), names.end());
  return names;
}

void PosixFileSystem::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_io_failure(errno, "put in place", to);
}

void PosixFileSystem::make_directory(const std::string& path) {
  constexpr mode_t kAsUmaskLeavesIt = 0777;
  if (::mkdir(path.c_str(), kAsUmaskLeavesIt) != 0 && errno != EEXIST) {
    throw_io_failure(errno, "make", path, PathRole::kNewFile);
  }
}

void PosixFileSystem::remove(const std::string& path) {
  if (std::remove(path.c_str()) != 0 && errno != ENOENT) throw_io_failure(errno, "remove", path);
}

void PosixFileSystem::sync_directory(const std::string& directory) {
  const UniqueFd fd(open_retrying(directory, O_RDONLY | O_DIRECTORY));
  if (!fd.valid() || ::fsync(fd.get()) != 0) throw_io_failure(errno, "sync", directory, PathRole::kDirectory);
}

std::uint64_t PosixFileSystem::free_bytes(const std::string& directory) {
  struct statvfs info {};
  if (::statvfs(directory.c_str(), &info) != 0) throw_io_failure(errno, "measure", directory, PathRole::kDirectory);
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

std::unique_ptr<FileLock> PosixFileSystem::lock(const std::string& path) {
  for (;;) {
    UniqueFd fd(open_retrying(path, O_RDWR));
    struct stat locked {};
    if (!fd.valid() || ::fstat(fd.get(), &locked) != 0) throw_io_failure(errno, "lock", path);
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (::fcntl(fd.get(), F_OFD_SETLK, &whole) != 0) {
      if (has_no_locks(errno)) {
        log_warning(fmt::format("the file system of '{}' has no locks: let no second process use it", path));
        return std::make_unique<PosixLock>(std::move(fd));
      }
      if (errno != EAGAIN && errno != EACCES) throw_io_failure(errno, "lock", path);
      throw InvalidInput(fmt::format("'{}' is in use by {}: wait until it has ended, or name another directory",
                                     std::filesystem::path(path).parent_path().string(), lock_holder(locked)));
    }
    // The name may have been renamed over between open and lock.
    struct stat named {};
    if (::stat(path.c_str(), &named) == 0 && is_same_file(named, locked)) {
      return std::make_unique<PosixLock>(std::move(fd));
    }
  }
}

int posix_fd(const File& file) {
  const auto* posix = dynamic_cast<const PosixFile*>(&file);
  CHECK(posix != nullptr, "kernel engines are given kernel files");
  return posix->fd();
}

}  // namespace sluice
