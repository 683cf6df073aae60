// SPDX-License-Identifier: Apache-2.0
// For tests: reads past the host on a device whose memory is the host's, by the plainest means there are.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "device/direct_storage.h"

namespace sluice {

class PlainStorage final : public DirectStorage {
 public:
  // Counts what is read into `read_bytes`, which outlives it.
  explicit PlainStorage(std::atomic<std::uint64_t>& read_bytes) : read_bytes_(read_bytes) {}

  std::unique_ptr<DirectFile> open(const std::string& path) override {
    return std::make_unique<PlainFile>(path, read_bytes_);
  }

  std::vector<std::uint64_t> chunk_sums(std::span<const std::byte> memory, std::uint64_t chunk_bytes) override {
    std::vector<std::uint64_t> sums;
    for (; !memory.empty(); memory = memory.subspan(std::min<std::size_t>(chunk_bytes, memory.size()))) {
      sums.push_back(xxh3(memory.first(std::min<std::size_t>(chunk_bytes, memory.size()))));
    }
    return sums;
  }

 private:
  class PlainFile final : public DirectFile {
   public:
    PlainFile(const std::string& path, std::atomic<std::uint64_t>& read_bytes)
        : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), read_bytes_(read_bytes) {
      if (descriptor_ < 0) throw IoError(errno, "cannot open " + path);
    }
    ~PlainFile() override { ::close(descriptor_); }
    PlainFile(const PlainFile&) = delete;
    PlainFile& operator=(const PlainFile&) = delete;

    void read(std::uint64_t offset, std::span<std::byte> into) override {
      while (!into.empty()) {
        const ssize_t got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
        if (got <= 0) throw IoError(got < 0 ? errno : 0, "cannot read at " + std::to_string(offset));
        offset += static_cast<std::uint64_t>(got);
        into = into.subspan(static_cast<std::size_t>(got));
        read_bytes_ += static_cast<std::uint64_t>(got);
      }
    }

   private:
    int descriptor_;
    std::atomic<std::uint64_t>& read_bytes_;
  };

  std::atomic<std::uint64_t>& read_bytes_;
};

}  // namespace sluice
