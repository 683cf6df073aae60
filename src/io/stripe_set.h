// SPDX-License-Identifier: Apache-2.0
// Several drives used as one: a run of bytes is cut into chunks that lie on the drives by a StripePattern, and one
// call moves them all at once. Each drive's share of a run is a list of extents in that drive's file.
// Borrows engine and files. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/file.h"
#include "io/io_engine.h"
#include "io/stripe_pattern.h"

namespace sluice {

struct Extent {
  std::uint32_t drive_idx = 0;
  std::uint64_t offset = 0;  // in the drive's file
  std::uint64_t size_bytes = 0;

  bool operator==(const Extent&) const = default;
};

// A run of bytes as it lies on the drives. It begins at any place of the pattern, so that small runs do not all begin
// on the first drive.
struct StripeRun {
  StripeRun(std::span<const Extent> where, std::uint64_t pattern_chunk) : extents(where), first_chunk(pattern_chunk) {}
  StripeRun(const std::vector<Extent>& where) : extents(where) {}  // NOLINT(google-explicit-constructor)

  std::span<const Extent> extents;
  std::uint64_t first_chunk = 0;  // the pattern's chunk where the run begins
};

class StripeSet {
 public:
  StripeSet(IoEngine& engine, std::vector<File*> files, StripePattern pattern, std::uint64_t chunk_bytes);

  // How many bytes of a run each drive holds; each a multiple of kIoAlignment.
  std::vector<std::uint64_t> shares(std::uint64_t run_bytes, std::uint64_t first_chunk = 0) const;

  // Moves run bytes [offset, offset + memory.size()). The offset is a multiple of the chunk, the size of kIoAlignment;
  // extents cover the shares of the run.
  Ticket read(const StripeRun& run, std::uint64_t offset, std::span<std::byte> into) const;
  Ticket write(const StripeRun& run, std::uint64_t offset, std::span<const std::byte> from) const;
  // What read() would ask the engine for, for who reads another way.
  std::vector<IoRequest> read_requests(const StripeRun& run, std::uint64_t offset, std::span<std::byte> into) const {
    return requests(IoOp::kRead, run, offset, into);
  }
  // Makes what was written to every drive survive a power cut.
  Ticket sync() const;

  // Where one byte of the run lies; for messages.
  Extent locate(const StripeRun& run, std::uint64_t offset) const;

  std::uint64_t chunk_bytes() const { return chunk_bytes_; }
  File& file(std::uint32_t drive_idx) const { return *files_[drive_idx]; }
  const StripePattern& pattern() const { return pattern_; }

 private:
  std::vector<IoRequest> requests(IoOp op, const StripeRun& run, std::uint64_t offset,
                                  std::span<std::byte> memory) const;

  IoEngine& engine_;
  std::vector<File*> files_;
  std::vector<Registration> registrations_;
  StripePattern pattern_;
  std::uint64_t chunk_bytes_;
};

}  // namespace sluice
