// SPDX-License-Identifier: Apache-2.0
// The free and taken bytes of a store's data files. A Grant owns extents and gives them back when it dies. Files grow
// when their free space does not do, in large steps, preallocated; free space on the drive is checked before.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/range_allocator.h"
#include "base/units.h"
#include "io/file.h"
#include "io/stripe_set.h"

namespace sluice {

class StoreSpace;

// Left free on each drive for whatever else lives there.
inline constexpr std::uint64_t kDriveMarginBytes = 64 * kMiB;

class ExtentGrant {
 public:
  ExtentGrant() = default;
  ExtentGrant(std::shared_ptr<StoreSpace> space, std::vector<Extent> extents);
  ~ExtentGrant();
  ExtentGrant(ExtentGrant&&) = default;
  ExtentGrant& operator=(ExtentGrant&&) = delete;
  ExtentGrant(const ExtentGrant&) = delete;
  ExtentGrant& operator=(const ExtentGrant&) = delete;

  const std::vector<Extent>& extents() const { return extents_; }

 private:
  std::shared_ptr<StoreSpace> space_;  // shared by the store and by every grant, which may outlive the store
  std::vector<Extent> extents_;
};

class StoreSpace : public std::enable_shared_from_this<StoreSpace> {
 public:
  struct Drive {
    std::string directory;
    std::unique_ptr<File> file;
  };

  // Files grow by an eighth, at least by `growth_bytes`: few growths, little set aside in vain.
  StoreSpace(FileSystem& files, std::vector<Drive> drives, std::uint64_t growth_bytes);

  // One share a drive, multiples of kBlockBytes. Throws IoError (ENOSPC) naming the drive, what is needed and what is
  // free; then nothing was taken.
  ExtentGrant take(const std::vector<std::uint64_t>& shares);
  // What a recovered record refers to. Throws FormatError where it lies outside the file or is taken already.
  ExtentGrant take_exactly(const std::vector<Extent>& extents);

  // Makes the files at least this long without taking anything, so that a run that needs it fails before it starts.
  void preallocate(const std::vector<std::uint64_t>& shares);

  // How much more each drive would have to have for its file to hold these bytes in all.
  std::vector<std::uint64_t> missing_bytes(const std::vector<std::uint64_t>& drive_bytes) const;

  std::uint64_t taken_bytes() const;
  std::uint64_t peak_bytes() const;  // the most that was taken at once
  std::uint64_t file_bytes() const;
  // Cuts off what is free at the end of each file.
  void shrink();

  File& file(std::uint32_t drive_idx) { return *drives_[drive_idx].file; }
  const std::string& directory(std::uint32_t drive_idx) const { return drives_[drive_idx].directory; }
  std::size_t num_drives() const { return drives_.size(); }

 private:
  friend class ExtentGrant;
  void give_back(const std::vector<Extent>& extents);
  void take_share(std::uint32_t drive_idx, std::uint64_t bytes, std::vector<Extent>& into);
  std::uint64_t taken() const;
  void count_peak();
  void grow(std::uint32_t drive_idx, std::uint64_t more_bytes);
  // What the file may still grow by.
  std::uint64_t available_bytes(std::uint32_t drive_idx) const;

  FileSystem& files_;
  std::vector<Drive> drives_;
  std::uint64_t growth_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t peak_bytes_ = 0;
  std::vector<RangeAllocator> ranges_;  // of [kDataStart, file size), counted from kDataStart
};

}  // namespace sluice
