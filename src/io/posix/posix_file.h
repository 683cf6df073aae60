// SPDX-License-Identifier: Apache-2.0
// Files of the kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/file.h"

namespace sluice {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd();
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();

 private:
  int fd_ = -1;
};

class PosixFile : public File {
 public:
  PosixFile(std::string path, Caching caching, UniqueFd fd) : File(std::move(path), caching), fd_(std::move(fd)) {}

  std::uint64_t size_bytes() const override;
  void preallocate(std::uint64_t size_bytes) override;
  void truncate(std::uint64_t size_bytes) override;
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

class PosixFileSystem : public FileSystem {
 public:
  std::unique_ptr<File> open(const std::string& path, OpenMode mode, Caching caching) override;
  bool exists(const std::string& path) override;
  bool writable(const std::string& directory) override;
  void require_directory(const std::string& path, OpenMode mode) override;
  std::vector<std::string> list(const std::string& directory) override;
  void rename(const std::string& from, const std::string& to) override;
  void make_directory(const std::string& path) override;
  void remove(const std::string& path) override;
  void sync_directory(const std::string& directory) override;
  std::uint64_t free_bytes(const std::string& directory) override;
  std::unique_ptr<FileLock> lock(const std::string& path) override;
};

// The descriptor behind a File that came from a PosixFileSystem.
int posix_fd(const File& file);

}  // namespace sluice
