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

class ProbeFile {
 public:
  ProbeFile(const DirectProbe& probe, DirectReader& reader, const std::string& directory)
      : files_(probe.files), reader_(reader), path_(fmt::format("{}/.sluice-direct-{}", directory, ::getpid())) {
    file_ = files_.open(path_, OpenMode::kCreate, probe.caching);
  }
  ~ProbeFile() {
    reader_.close(path_);
    try {
      files_.remove(path_);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it is told of by whoever lists the directory
    }
  }
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;

  File& file() { return *file_; }

 private:
  FileSystem& files_;
  DirectReader& reader_;
  std::string path_;
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
  if (wish == DirectWish::kOn) return {std::move(reader), "they are on"};
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
