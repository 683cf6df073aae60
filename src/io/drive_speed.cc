// SPDX-License-Identifier: Apache-2.0
#include "io/drive_speed.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/core.h>

#include "base/error.h"
#include "base/page_memory.h"
#include "base/random.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::uint64_t kWindowBytes = 16 * kMiB;

// Two windows in turn, so that the queue never runs dry between them.
double sweep_seconds(const DriveProbe& probe, File& file, IoOp op, std::array<PageMemory, 4>& windows,
                     std::uint64_t probe_bytes) {
  const Stopwatch stopwatch(probe.clock);
  std::array<Ticket, 2> tickets;
  std::size_t turn = 0;
  for (std::uint64_t offset = 0; offset < probe_bytes; offset += kWindowBytes, turn ^= 1) {
    tickets[turn].wait();
    tickets[turn] = probe.engine.submit({.file = &file, .op = op, .offset = offset, .memory = windows[turn].bytes()});
  }
  for (Ticket& ticket : tickets) ticket.wait();
  if (op == IoOp::kWrite) probe.engine.submit(IoRequest::sync(file)).wait();
  return stopwatch.seconds();
}

// Reads the file's first half while its second half is written.
double mixed_seconds(const DriveProbe& probe, File& file, std::array<PageMemory, 4>& windows,
                     std::uint64_t probe_bytes) {
  const Stopwatch stopwatch(probe.clock);
  std::array<Ticket, 4> tickets;
  std::size_t turn = 0;
  const std::uint64_t half = probe_bytes / 2;
  for (std::uint64_t offset = 0; offset < half; offset += kWindowBytes, turn ^= 1) {
    for (const bool writes : {false, true}) {
      const std::size_t window = turn + (writes ? 2 : 0);
      tickets[window].wait();
      tickets[window] = probe.engine.submit({.file = &file,
                                             .op = writes ? IoOp::kWrite : IoOp::kRead,
                                             .offset = offset + (writes ? half : 0),
                                             .memory = windows[window].bytes()});
    }
  }
  for (Ticket& ticket : tickets) ticket.wait();
  return stopwatch.seconds();
}

// At most half of the free space, as other processes write to the drive too.
std::uint64_t affordable_bytes(const DriveProbe& probe, const std::string& directory, std::uint64_t probe_bytes) {
  constexpr std::uint64_t kLeastBytes = 2 * kWindowBytes;
  const std::uint64_t free_bytes = probe.files.free_bytes(directory);
  if (free_bytes < 2 * kLeastBytes) {
    throw IoError(ENOSPC,
                  fmt::format("the drive of '{}' has {} free, too little to measure its speed and to keep a run "
                              "there: free at least {}, or name a folder on another drive",
                              directory, format_bytes(free_bytes), format_bytes(2 * kLeastBytes)));
  }
  return std::max(round_down(std::min(probe_bytes, free_bytes / 2), kLeastBytes), kLeastBytes);
}

}  // namespace

DriveSpeed measure_drive(const DriveProbe& probe, const std::string& directory, std::uint64_t probe_bytes) {
  probe_bytes = affordable_bytes(probe, directory, probe_bytes);
  const std::string path = fmt::format("{}/.sluice-probe-{}", directory, ::getpid());
  const auto file = probe.files.open(path, OpenMode::kCreate, probe.caching);
  probe.files.remove(path);  // its blocks go with the last descriptor, however this process ends
  file->preallocate(probe_bytes);
  std::array<PageMemory, 4> windows;
  for (PageMemory& window : windows) window = PageMemory(kWindowBytes);
  for (PageMemory& window : windows) Random(random_identity()).fill(window.bytes());

  DriveSpeed speed;
  // The first pass turns preallocated blocks into written ones; the second is what a store in use sees.
  sweep_seconds(probe, *file, IoOp::kWrite, windows, probe_bytes);
  speed.write_gb_per_s = gb_per_s(probe_bytes, sweep_seconds(probe, *file, IoOp::kWrite, windows, probe_bytes));
  speed.read_gb_per_s = gb_per_s(probe_bytes, sweep_seconds(probe, *file, IoOp::kRead, windows, probe_bytes));
  speed.mixed_gb_per_s = gb_per_s(probe_bytes, mixed_seconds(probe, *file, windows, probe_bytes));
  return speed;
}

}  // namespace sluice
