// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/direct_storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "device/cuda/cuda_error.h"
#include "ops/cuda/chunk_sums.h"
#include "ops/cuda/cufile.h"

namespace sluice::cuda {
namespace {

constexpr std::size_t kMaxSums = 4096;  // at a time

// cuFile asks udev what a file lies on, even where it then reads through the host.
std::string why_refused(const std::string& path) {
  struct stat file = {};
  if (::stat(path.c_str(), &file) == 0) {
    const std::string entry = fmt::format("/run/udev/data/b{}:{}", major(file.st_dev), minor(file.st_dev));
    std::error_code ignored;
    if (!std::filesystem::exists(entry, ignored)) return fmt::format("udev has no entry of its drive ({})", entry);
  }
  return "its log, in the file that CUFILE_LOGFILE_PATH names, says why";
}

class CuFileFile final : public DirectFile {
 public:
  CuFileFile(std::shared_ptr<CuFile> library, const CudaDevice& device, std::string path)
      : library_(std::move(library)), device_(device), path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (descriptor_ < 0) throw IoError(errno, fmt::format("cannot open '{}': {}", path_, std::strerror(errno)));
    CuFileDescription description;
    description.descriptor = descriptor_;
    const CuFileStatus status = library_->register_handle(&handle_, &description);
    if (status.error != 0) {
      ::close(descriptor_);
      throw DeviceError(
          fmt::format("cuFile does not take '{}' (its error {}): {}", path_, status.error, why_refused(path_)));
    }
  }
  ~CuFileFile() override {
    library_->deregister_handle(handle_);
    ::close(descriptor_);
  }
  CuFileFile(const CuFileFile&) = delete;
  CuFileFile& operator=(const CuFileFile&) = delete;

  void read(std::uint64_t offset, std::span<std::byte> into) override {
    device_.make_current();
    const std::span<std::byte> arena = device_.arena();
    CHECK(into.data() >= arena.data() && into.data() + into.size() <= arena.data() + arena.size(), "the card's memory");
    while (!into.empty()) {
      const ssize_t got = library_->read(handle_, arena.data(), into.size(), static_cast<off_t>(offset),
                                         static_cast<off_t>(into.data() - arena.data()));
      if (got <= 0) fail(got, offset);
      offset += static_cast<std::uint64_t>(got);
      into = into.subspan(static_cast<std::size_t>(got));
    }
  }

 private:
  [[noreturn]] void fail(ssize_t result, std::uint64_t offset) const {
    const int error = result == -1 ? errno : 0;
    throw IoError(error, fmt::format("cannot read '{}' at {} into the card's memory: {}", path_, offset,
                                     result == 0   ? "the file ends there"
                                     : result < -1 ? fmt::format("cuFile's error {}", -result)
                                                   : std::strerror(error)));
  }

  std::shared_ptr<CuFile> library_;
  const CudaDevice& device_;
  std::string path_;
  int descriptor_ = -1;
  CuFileHandle handle_ = nullptr;
};

class CuFileStorage final : public DirectStorage {
 public:
  explicit CuFileStorage(CudaDevice& device)
      : device_(device),
        library_(std::make_shared<CuFile>(device.arena().size())),
        sums_(device.allocate_pinned(kMaxSums * 8)) {
    device.make_current();
    require(cudaHostGetDevicePointer(&sums_on_card_, sums_.bytes().data(), 0), "cudaHostGetDevicePointer");
    // What is registered is read into as it lies; else the library would take memory of the card for itself.
    const CuFileStatus status = library_->register_memory(device.arena().data(), device.arena().size(), 0);
    registered_ = status.error == 0;
    if (why_not_past_the_host().empty()) library_->require(status, "registering the card's memory with cuFile");
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~CuFileStorage() override {
    cudaSetDevice(device_.card_idx());
    cudaStreamDestroy(stream_);
    if (registered_) library_->deregister_memory(device_.arena().data());
  }
  CuFileStorage(const CuFileStorage&) = delete;
  CuFileStorage& operator=(const CuFileStorage&) = delete;

  std::unique_ptr<DirectFile> open(const std::string& path) override {
    return std::make_unique<CuFileFile>(library_, device_, path);
  }

  std::vector<std::uint64_t> chunk_sums(std::span<const std::byte> memory, std::uint64_t chunk_bytes) override {
    CHECK(is_aligned(memory.size(), kHashBlockBytes) && is_aligned(chunk_bytes, kHashBlockBytes), "whole kilobytes");
    const std::scoped_lock lock(mutex_);
    device_.make_current();
    std::vector<std::uint64_t> sums;
    while (!memory.empty()) {
      const std::span<const std::byte> part = memory.first(std::min(memory.size(), kMaxSums * chunk_bytes));
      cuda::chunk_sums(stream_, {.words = reinterpret_cast<const std::uint64_t*>(part.data()),
                                 .size_bytes = part.size(),
                                 .chunk_bytes = chunk_bytes,
                                 .sums = static_cast<std::uint64_t*>(sums_on_card_),
                                 .keys = keys_});
      require(cudaGetLastError(), "the kernel of chunk sums");
      require(cudaStreamSynchronize(stream_), "chunk sums");
      const auto* const found = reinterpret_cast<const std::uint64_t*>(sums_.bytes().data());
      sums.insert(sums.end(), found, found + div_ceil(part.size(), chunk_bytes));
      memory = memory.subspan(part.size());
    }
    return sums;
  }

 private:
  CudaDevice& device_;
  std::shared_ptr<CuFile> library_;  // shared with the files
  Buffer sums_;
  bool registered_ = false;
  void* sums_on_card_ = nullptr;
  cudaStream_t stream_ = nullptr;
  HashLanes keys_ = make_hash_lanes();
  std::mutex mutex_;
};

}  // namespace

DirectStorageFinding open_direct_storage(CudaDevice& device, DirectWay way) {
  if (way == DirectWay::kPastTheHost) {
    if (std::string why_not = why_not_past_the_host(); !why_not.empty()) return {nullptr, std::move(why_not)};
  }
  try {
    return {std::make_unique<CuFileStorage>(device), ""};
  } catch (const DeviceError& error) {
    return {nullptr, error.what()};
  }
}

}  // namespace sluice::cuda
