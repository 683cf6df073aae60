// SPDX-License-Identifier: Apache-2.0
#include "io/stripe_set.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "io/alignment.h"

namespace sluice {
namespace {

// The extent that holds byte `position` of a drive's share, cut to begin there.
Extent extent_at(std::span<const Extent> extents, std::uint32_t drive_idx, std::uint64_t position) {
  for (const Extent& extent : extents) {
    if (extent.drive_idx != drive_idx) continue;
    if (position < extent.size_bytes) return {drive_idx, extent.offset + position, extent.size_bytes - position};
    position -= extent.size_bytes;
  }
  CHECK(false, "extents cover the run");
  return {};
}

}  // namespace

StripeSet::StripeSet(IoEngine& engine, std::vector<File*> files, StripePattern pattern, std::uint64_t chunk_bytes)
    : engine_(engine), files_(std::move(files)), pattern_(std::move(pattern)), chunk_bytes_(chunk_bytes) {
  CHECK(files_.size() == pattern_.weights().size(), "one weight a drive");
  CHECK(chunk_bytes > 0 && is_aligned(chunk_bytes, kIoAlignment), "chunks are aligned");
  for (File* file : files_) registrations_.push_back(engine_.register_file(*file));
}

std::vector<std::uint64_t> StripeSet::shares(std::uint64_t run_bytes, std::uint64_t first_chunk) const {
  const std::uint64_t num_chunks = div_ceil(run_bytes, chunk_bytes_);
  std::vector<std::uint64_t> bytes(files_.size(), 0);
  for (std::uint32_t i = 0; i < files_.size(); ++i) {
    const std::uint64_t before = pattern_.chunks_on_drive(i, first_chunk);
    bytes[i] = (pattern_.chunks_on_drive(i, first_chunk + num_chunks) - before) * chunk_bytes_;
  }
  if (num_chunks > 0) {
    const std::uint64_t last_bytes = round_up(run_bytes - (num_chunks - 1) * chunk_bytes_, kIoAlignment);
    bytes[pattern_.place(first_chunk + num_chunks - 1).drive_idx] -= chunk_bytes_ - last_bytes;
  }
  return bytes;
}

Extent StripeSet::locate(const StripeRun& run, std::uint64_t offset) const {
  const StripePattern::Place place = pattern_.place(run.first_chunk + offset / chunk_bytes_);
  const std::uint64_t before = pattern_.chunks_on_drive(place.drive_idx, run.first_chunk);
  return extent_at(run.extents, place.drive_idx,
                   (place.chunk_on_drive - before) * chunk_bytes_ + offset % chunk_bytes_);
}

std::vector<IoRequest> StripeSet::requests(IoOp op, const StripeRun& run, std::uint64_t offset,
                                           std::span<std::byte> memory) const {
  CHECK(is_aligned(offset, chunk_bytes_) && is_aligned(memory.size(), kIoAlignment), "runs move by whole chunks");
  std::vector<IoRequest> made;
  while (!memory.empty()) {
    const Extent extent = locate(run, offset);
    const std::uint64_t left_in_chunk = chunk_bytes_ - offset % chunk_bytes_;
    const std::uint64_t size = std::min<std::uint64_t>({left_in_chunk, extent.size_bytes, memory.size()});
    IoRequest* const last = made.empty() ? nullptr : &made.back();
    if (last != nullptr && last->file == files_[extent.drive_idx] &&
        last->offset + last->memory.size() == extent.offset) {
      last->memory = {last->memory.data(), last->memory.size() + size};
    } else {
      made.push_back(
          {.file = files_[extent.drive_idx], .op = op, .offset = extent.offset, .memory = memory.first(size)});
    }
    offset += size;
    memory = memory.subspan(size);
  }
  return made;
}

Ticket StripeSet::read(const StripeRun& run, std::uint64_t offset, std::span<std::byte> into) const {
  return engine_.submit(requests(IoOp::kRead, run, offset, into));
}

Ticket StripeSet::write(const StripeRun& run, std::uint64_t offset, std::span<const std::byte> from) const {
  // Only ever read from: see IoRequest::write.
  const std::span<std::byte> memory{const_cast<std::byte*>(from.data()), from.size()};
  return engine_.submit(requests(IoOp::kWrite, run, offset, memory));
}

Ticket StripeSet::sync() const {
  std::vector<IoRequest> syncs;
  for (File* file : files_) syncs.push_back(IoRequest::sync(*file));
  return engine_.submit(syncs);
}

}  // namespace sluice
