// SPDX-License-Identifier: Apache-2.0
#include "tier/direct_speed.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::uint64_t kProbeBytes = 256 * kMiB;
constexpr std::uint64_t kWindowBytes = 16 * kMiB;
constexpr std::size_t kNumWindows = 4;
constexpr int kRounds = 3;

// Its name is gone as soon as both ways have it open: its blocks go with the last descriptor, however this process
// ends.
class ProbeFile {
 public:
  ProbeFile(const DirectProbe& probe, DirectReader& reader, const std::string& directory)
      : reader_(reader), file_(probe.files.open(path_in(directory), OpenMode::kCreate, probe.caching)) {
    try {
      reader_.open(file_->path());
    } catch (...) {
      probe.files.remove(file_->path());
      throw;
    }
    probe.files.remove(file_->path());
  }
  ~ProbeFile() { reader_.close(file_->path()); }
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;

  File& file() { return *file_; }

 private:
  static std::string path_in(const std::string& directory) {
    return fmt::format("{}/.sluice-direct-{}", directory, ::getpid());
  }

  DirectReader& reader_;
  std::unique_ptr<File> file_;
};

// As SliceLoader goes: read, checked by the host, copied.
double staged_seconds(const DirectProbe& probe, File& file, std::span<const Buffer> windows, const Buffer& place,
                      Stream& copies) {
  const Stopwatch stopwatch(probe.clock);
  std::array<Ticket, kNumWindows> tickets;
  std::array<Event, kNumWindows> copied;
  const std::uint64_t num_windows = kProbeBytes / kWindowBytes;
  const auto submit = [&](std::uint64_t idx) {
    const std::size_t turn = idx % kNumWindows;
    copied[turn].wait();
    tickets[turn] = probe.engine.submit(IoRequest::read(file, idx * kWindowBytes, windows[turn].bytes()));
  };
  for (std::uint64_t idx = 0; idx < kNumWindows - 1; ++idx) submit(idx);
  for (std::uint64_t idx = 0; idx < num_windows; ++idx) {
    const std::size_t turn = idx % kNumWindows;
    if (idx + kNumWindows - 1 < num_windows) submit(idx + kNumWindows - 1);
    tickets[turn].wait();
    static_cast<void>(xxh3(windows[turn].bytes()));
    copies.copy(place.bytes().subspan(turn * kWindowBytes, kWindowBytes), windows[turn].bytes());
    copied[turn] = copies.record();
  }
  copies.synchronize();
  return stopwatch.seconds();
}

double direct_seconds(const DirectProbe& probe, File& file, DirectReader& reader, const Buffer& place) {
  const Stopwatch stopwatch(probe.clock);
  for (std::uint64_t offset = 0; offset < kProbeBytes; offset += place.size_bytes()) {
    const IoRequest request = IoRequest::read(file, offset, place.bytes());
    reader.read(std::span(&request, 1));
    static_cast<void>(reader.chunk_sums(place.bytes(), kMiB));
  }
  return stopwatch.seconds();
}

// A block comes as it was written.
void try_direct_read(const DirectProbe& probe, DirectReader& reader, const std::string& directory) {
  const Buffer block = probe.device.allocate_pinned(Device::kAlignment);
  const Buffer place = probe.device.allocate(Device::kAlignment, "a look at reads past the host");
  ProbeFile scratch(probe, reader, directory);
  scratch.file().preallocate(block.size_bytes());
  Random(random_identity()).fill(block.bytes());
  probe.engine.submit(IoRequest::write(scratch.file(), 0, block.bytes())).wait();
  probe.engine.submit(IoRequest::sync(scratch.file())).wait();
  const IoRequest request = IoRequest::read(scratch.file(), 0, place.bytes());
  reader.read(std::span(&request, 1));
  if (reader.chunk_sums(place.bytes(), place.size_bytes()).front() != xxh3(block.bytes())) {
    throw IoError(0, fmt::format("what was read past the host in '{}' is not what was written", directory));
  }
}

}  // namespace

DirectSpeed measure_direct_reads(const DirectProbe& probe, DirectReader& reader, const std::string& directory) {
  const Reservation reserved = probe.host.reserve(kNumWindows * kWindowBytes, "a look at reads past the host");
  std::vector<Buffer> windows;
  for (std::size_t idx = 0; idx < kNumWindows; ++idx) windows.push_back(probe.device.allocate_pinned(kWindowBytes));
  const Buffer place = probe.device.allocate(kNumWindows * kWindowBytes, "a look at reads past the host");
  const std::unique_ptr<Stream> copies = probe.device.make_stream("host->device");
  ProbeFile scratch(probe, reader, directory);
  scratch.file().preallocate(kProbeBytes);
  Random(random_identity()).fill(windows.front().bytes());
  for (std::uint64_t offset = 0; offset < kProbeBytes; offset += kWindowBytes) {
    probe.engine.submit(IoRequest::write(scratch.file(), offset, windows.front().bytes())).wait();
  }
  probe.engine.submit(IoRequest::sync(scratch.file())).wait();

  DirectSpeed best;
  for (int round = 0; round < kRounds; ++round) {
    best.staged_gb_per_s = std::max(
        best.staged_gb_per_s, gb_per_s(kProbeBytes, staged_seconds(probe, scratch.file(), windows, place, *copies)));
    best.direct_gb_per_s =
        std::max(best.direct_gb_per_s, gb_per_s(kProbeBytes, direct_seconds(probe, scratch.file(), reader, place)));
  }
  return best;
}

DirectChoice choose_direct_reads(DirectWish wish, const DirectProbe& probe,
                                 const std::vector<std::string>& directories) {
  if (wish == DirectWish::kOff) return {nullptr, "they are off"};
  DirectStorageFinding found =
      probe.device.open_direct_storage(wish == DirectWish::kOn ? DirectWay::kAnyhow : DirectWay::kPastTheHost);
  if (!found.storage) {
    if (wish == DirectWish::kOn) throw InvalidInput(fmt::format("direct_storage is on, but {}", found.why_not));
    return {nullptr, found.why_not};
  }
  auto reader = std::make_unique<DirectReader>(std::move(found.storage));
  if (wish == DirectWish::kOn) {
    try {
      for (const std::string& directory : directories) try_direct_read(probe, *reader, directory);
    } catch (const Error& error) {
      throw InvalidInput(fmt::format("direct_storage is on, but {}", error.what()));
    }
    return {std::move(reader), "they are on"};
  }
  std::string figures;
  try {
    for (const std::string& directory : directories) {
      const DirectSpeed speed = measure_direct_reads(probe, *reader, directory);
      figures = fmt::format("{:.2f} GB/s past the host, {:.2f} GB/s through it in '{}'", speed.direct_gb_per_s,
                            speed.staged_gb_per_s, directory);
      if (!speed.is_faster()) return {nullptr, figures};
    }
  } catch (const Error& error) {  // a run can do without
    return {nullptr, error.what()};
  }
  return {std::move(reader), figures};
}

}  // namespace sluice
