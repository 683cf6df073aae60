// SPDX-License-Identifier: Apache-2.0
// An open file and the file system it came from. Bytes move through an IoEngine; what is here is names, sizes and
// locks. Two implementations: posix/ (the kernel) and fake/ (memory, with power cuts and faults).
// Thread-safety: a FileSystem may be used from any thread, a File's methods from one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

enum class OpenMode { kReadOnly, kReadWrite, kCreate };  // kCreate: read and write, made if absent
enum class Caching { kDirect, kPageCache };              // kDirect: O_DIRECT, everything a multiple of kIoAlignment

class File {
 public:
  File(std::string path, Caching caching) : path_(std::move(path)), caching_(caching) {}
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  Caching caching() const { return caching_; }

  virtual std::uint64_t size_bytes() const = 0;
  // Extends the file to `size_bytes` and allocates its blocks, so that later writes cannot run out of space.
  virtual void preallocate(std::uint64_t size_bytes) = 0;
  virtual void truncate(std::uint64_t size_bytes) = 0;

 private:
  std::string path_;
  Caching caching_;
};

// An exclusive lock on a file; the kernel releases it when the process dies. It locks the inode, not the name: it
// survives a rename.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::unique_ptr<File> open(const std::string& path, OpenMode mode, Caching caching) = 0;
  virtual bool exists(const std::string& path) = 0;  // throws where that cannot be known
  virtual bool writable(const std::string& directory) = 0;
  // Throws InvalidInput that says what is wrong with it as a place to keep a store.
  virtual void require_directory(const std::string& path, OpenMode mode) = 0;
  virtual std::vector<std::string> list(const std::string& directory) = 0;  // names, sorted
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // Of a folder that is there already, nothing is made.
  virtual void make_directory(const std::string& path) = 0;
  // A file, or a folder that is empty; nothing happens where there is none.
  virtual void remove(const std::string& path) = 0;
  // Makes earlier creations, renames and removals in the directory survive a power cut.
  virtual void sync_directory(const std::string& directory) = 0;
  virtual std::uint64_t free_bytes(const std::string& directory) = 0;
  // Locks the file that has this name now; a second lock fails even in this process. Throws InvalidInput naming the
  // process that holds the lock.
  virtual std::unique_ptr<FileLock> lock(const std::string& path) = 0;
};

}  // namespace sluice
