// SPDX-License-Identifier: Apache-2.0
// Fills device memory from the drives past the host, several parts at once, where a device can do that. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "device/direct_storage.h"
#include "io/io_engine.h"

namespace sluice {

class DirectReader {
 public:
  explicit DirectReader(std::unique_ptr<DirectStorage> storage);

  // What the requests, all of them reads into device memory, ask for. Blocks. Throws IoError: what one of them met.
  void read(std::span<const IoRequest> requests);
  // A file is opened where it is read first; one that is closed, once more where it is read again.
  DirectFile& open(const std::string& path);
  void close(const std::string& path);
  std::vector<std::uint64_t> chunk_sums(std::span<const std::byte> memory, std::uint64_t chunk_bytes) {
    return storage_->chunk_sums(memory, chunk_bytes);
  }

 private:
  std::unique_ptr<DirectStorage> storage_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<DirectFile>> files_;
  ThreadPool threads_;
};

}  // namespace sluice
