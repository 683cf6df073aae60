// SPDX-License-Identifier: Apache-2.0
#include "tier/store_space.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "tier/store_format.h"

namespace sluice {

ExtentGrant::ExtentGrant(std::shared_ptr<StoreSpace> space, std::vector<Extent> extents)
    : space_(std::move(space)), extents_(std::move(extents)) {}

ExtentGrant::~ExtentGrant() {
  if (space_) space_->give_back(extents_);
}

StoreSpace::StoreSpace(FileSystem& files, std::vector<Drive> drives, std::uint64_t growth_bytes)
    : files_(files), drives_(std::move(drives)), growth_bytes_(growth_bytes) {
  for (const Drive& drive : drives_) {
    const std::uint64_t size = drive.file->size_bytes();
    ranges_.emplace_back(size > kDataStart ? size - kDataStart : 0, kBlockBytes);
  }
}

ExtentGrant StoreSpace::take(const std::vector<std::uint64_t>& shares) {
  CHECK(shares.size() == drives_.size(), "one share a drive");
  const std::scoped_lock lock(mutex_);
  std::vector<Extent> taken;
  try {
    for (std::uint32_t i = 0; i < shares.size(); ++i) take_share(i, shares[i], taken);
  } catch (const Error&) {
    for (const Extent& extent : taken) {
      ranges_[extent.drive_idx].release({extent.offset - kDataStart, extent.size_bytes});
    }
    throw;
  }
  count_peak();
  return {shared_from_this(), std::move(taken)};
}

void StoreSpace::take_share(std::uint32_t drive_idx, std::uint64_t bytes, std::vector<Extent>& into) {
  RangeAllocator& ranges = ranges_[drive_idx];
  if (bytes == 0) return;
  if (ranges.free_bytes() < bytes) grow(drive_idx, bytes - ranges.free_bytes());
  // In one piece where that is possible, else in the largest pieces there are.
  while (bytes > 0) {
    std::optional<Range> range = ranges.take(bytes);
    if (!range) range = ranges.take_largest(bytes);
    CHECK(range.has_value(), "the file was grown to hold it");
    into.push_back({drive_idx, range->offset + kDataStart, range->size});
    bytes -= range->size;
  }
}

std::uint64_t StoreSpace::available_bytes(std::uint32_t drive_idx) const {
  const std::uint64_t on_drive = files_.free_bytes(drives_[drive_idx].directory);
  return on_drive > kDriveMarginBytes ? on_drive - kDriveMarginBytes : 0;
}

std::vector<std::uint64_t> StoreSpace::missing_bytes(const std::vector<std::uint64_t>& drive_bytes) const {
  CHECK(drive_bytes.size() == drives_.size(), "one number a drive");
  const std::scoped_lock lock(mutex_);
  std::vector<std::uint64_t> missing;
  for (std::uint32_t i = 0; i < drive_bytes.size(); ++i) {
    const std::uint64_t room = ranges_[i].size() + available_bytes(i);
    missing.push_back(drive_bytes[i] > room ? drive_bytes[i] - room : 0);
  }
  return missing;
}

void StoreSpace::grow(std::uint32_t drive_idx, std::uint64_t more_bytes) {
  Drive& drive = drives_[drive_idx];
  RangeAllocator& ranges = ranges_[drive_idx];
  const std::uint64_t on_drive = files_.free_bytes(drive.directory);
  const std::uint64_t available = available_bytes(drive_idx);
  if (more_bytes > available) {
    throw IoError(
        ENOSPC, fmt::format("the drive of '{}' is full: {} more are needed there and {} are free, {} of them "
                            "kept back; free {} and start again, everything committed is kept",
                            drive.directory, format_bytes(more_bytes), format_bytes(on_drive),
                            format_bytes(std::min(on_drive, kDriveMarginBytes)), format_bytes(more_bytes - available)));
  }
  const std::uint64_t wish = std::max(growth_bytes_, ranges.size() / 8);
  const std::uint64_t growth = round_up(std::max(more_bytes, std::min(wish, available)), kBlockBytes);
  drive.file->preallocate(kDataStart + ranges.size() + growth);
  ranges.grow(ranges.size() + growth);
}

ExtentGrant StoreSpace::take_exactly(const std::vector<Extent>& extents) {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const Extent& extent = extents[i];
    const bool sane = extent.drive_idx < drives_.size() && extent.offset >= kDataStart &&
                      is_aligned(extent.offset, kBlockBytes) && is_aligned(extent.size_bytes, kBlockBytes) &&
                      extent.size_bytes > 0 && extent.size_bytes <= ~extent.offset;
    if (sane && ranges_[extent.drive_idx].take_exactly({extent.offset - kDataStart, extent.size_bytes})) continue;
    for (std::size_t j = 0; j < i; ++j) {
      ranges_[extents[j].drive_idx].release({extents[j].offset - kDataStart, extents[j].size_bytes});
    }
    const std::string where = extent.drive_idx < drives_.size() ? drives_[extent.drive_idx].file->path() : "no drive";
    throw FormatError(
        fmt::format("the extent of {} at offset {} of '{}' lies outside the file or belongs to two "
                    "slices: the file is truncated or is not the one this store had; restore it",
                    format_bytes(extent.size_bytes), extent.offset, where));
  }
  count_peak();
  return {shared_from_this(), extents};
}

void StoreSpace::give_back(const std::vector<Extent>& extents) {
  const std::scoped_lock lock(mutex_);
  for (const Extent& extent : extents) {
    ranges_[extent.drive_idx].release({extent.offset - kDataStart, extent.size_bytes});
  }
}

void StoreSpace::preallocate(const std::vector<std::uint64_t>& shares) {
  CHECK(shares.size() == drives_.size(), "one share a drive");
  const std::scoped_lock lock(mutex_);
  for (std::uint32_t i = 0; i < shares.size(); ++i) {
    if (ranges_[i].free_bytes() < shares[i]) grow(i, shares[i] - ranges_[i].free_bytes());
  }
}

std::uint64_t StoreSpace::taken() const {
  std::uint64_t taken = 0;
  for (const RangeAllocator& ranges : ranges_) taken += ranges.size() - ranges.free_bytes();
  return taken;
}

void StoreSpace::count_peak() { peak_bytes_ = std::max(peak_bytes_, taken()); }

std::uint64_t StoreSpace::taken_bytes() const {
  const std::scoped_lock lock(mutex_);
  return taken();
}

std::uint64_t StoreSpace::peak_bytes() const {
  const std::scoped_lock lock(mutex_);
  return peak_bytes_;
}

std::uint64_t StoreSpace::file_bytes() const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const RangeAllocator& ranges : ranges_) bytes += ranges.size() + kDataStart;
  return bytes;
}

void StoreSpace::shrink() {
  const std::scoped_lock lock(mutex_);
  for (std::uint32_t i = 0; i < drives_.size(); ++i) {
    const std::uint64_t tail = ranges_[i].free_tail_bytes();
    if (tail == 0) continue;
    ranges_[i].shrink(ranges_[i].size() - tail);
    drives_[i].file->truncate(kDataStart + ranges_[i].size());
  }
}

}  // namespace sluice
