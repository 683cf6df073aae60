// SPDX-License-Identifier: Apache-2.0
#include "bench/stream_bench.h"

#include <algorithm>
#include <atomic>
#include <deque>

#include <fmt/core.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/units.h"
#include "bench/statistics.h"
#include "bench/tier_rig.h"
#include "tier/prefetcher.h"

namespace sluice {
namespace {

class StreamBench {
 public:
  StreamBench(const StreamBenchOptions& options, const ProgressSink& progress)
      : options_(options),
        progress_(progress),
        slice_bytes_(std::max(round_down(options.device_bytes / kSlicesOnDevice, kMiB), kMiB)),
        rig_({.directories = options.directories,
              .host_bytes = options.host_bytes,
              .device_bytes = options.device_bytes,
              .engine = options.engine}) {
    for (std::uint64_t i = 0; i < std::max<std::uint64_t>(1, options.size_bytes / slice_bytes_); ++i) {
      keys_.push_back(fmt::format("slice.{}", i));
    }
    total_bytes_ = keys_.size() * slice_bytes_;
    work_bytes_ = total_bytes_ * static_cast<std::uint64_t>(2 + 2 * options.num_rounds);
  }

  StreamBenchResult run() {
    StreamBenchResult result;
    result.write_gb_per_s = fill();
    stream(Use::kCompare);
    std::vector<double> streamed;
    std::vector<double> raw;
    for (int round = 0; round < options_.num_rounds; ++round) {
      for (int turn = 0; turn < 2; ++turn) {
        if ((turn == 0) == (round % 2 == 0)) {
          streamed.push_back(stream(Use::kNothing));
        } else {
          raw.push_back(read_raw());
        }
      }
    }
    result.engine = rig_.choice.engine->name();
    result.gb_per_s = median(streamed);
    result.raw_read_gb_per_s = median(raw);
    result.size_bytes = total_bytes_;
    result.num_slices = keys_.size();
    result.peak_rss_bytes = peak_rss_bytes();
    result.host_peak_bytes = rig_.host.peak_bytes();
    result.device_peak_bytes = rig_.device_budget.peak_bytes();
    return result;
  }

 private:
  void step(std::uint64_t bytes) {
    if (progress_.interrupted()) throw Cancelled("the benchmark was interrupted; its store was removed");
    done_bytes_ += bytes;
    progress_.report({.what = "bench stream", .done = done_bytes_, .total = work_bytes_});
  }

  double fill() {
    rig_.store->reserve_space(total_bytes_);
    expected_.resize(keys_.size());
    const Stopwatch stopwatch(rig_.clock);
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      Lease lease = rig_.tier.create(keys_[i], slice_bytes_);
      rig_.compute->run([bytes = lease.bytes(), i, this] {
        Random(i + 1).fill(bytes);
        expected_[i] = xxh3(bytes);
      });
      lease.use_on(*rig_.compute);
      step(slice_bytes_);
    }
    rig_.tier.save_dirty();
    rig_.store->commit("filled");
    return gb_per_s(total_bytes_, stopwatch.seconds());
  }

  // kNothing: the lanes alone, which verify every chunk's checksum on the host. kCompare: the device compares what has
  // arrived with what it had written, and takes processor time from the lanes for that.
  enum class Use { kNothing, kCompare };

  double stream(Use use) {
    const Stopwatch stopwatch(rig_.clock);
    Prefetcher prefetcher(rig_.tier, keys_);
    for (std::size_t i = 0; !prefetcher.done(); ++i) {
      Lease lease = prefetcher.next();
      lease.wait_on(*rig_.compute);
      if (use == Use::kCompare) {
        rig_.compute->run([bytes = lease.bytes(), expected = expected_[i], this] {
          if (xxh3(bytes) != expected) ++num_wrong_;
        });
      }
      lease.use_on(*rig_.compute);
      step(slice_bytes_);
    }
    rig_.compute->synchronize();
    const double rate = gb_per_s(total_bytes_, stopwatch.seconds());
    if (num_wrong_ > 0) {
      throw FormatError(
          fmt::format("{} of {} slices arrived other than they were written", num_wrong_.load(), keys_.size()));
    }
    return rate;
  }

  // The same bytes through the same pinned memory, as much in flight, but nothing verified, copied or used.
  double read_raw() {
    struct Reading {
      StagingRing::Slot slot;
      Ticket ticket;
    };
    std::deque<Reading> reading;
    const Stopwatch stopwatch(rig_.clock);
    for (const std::string& key : keys_) {
      const SliceRef version = rig_.store->find(key);
      for (std::uint64_t offset = 0; offset < version->stored_bytes(); offset += rig_.ring.slot_bytes()) {
        if (reading.size() == rig_.ring.num_slots()) {
          reading.front().ticket.wait();
          reading.pop_front();
        }
        StagingRing::Slot slot = rig_.ring.acquire();
        const auto bytes = slot.bytes().first(std::min(rig_.ring.slot_bytes(), version->stored_bytes() - offset));
        Ticket ticket = rig_.store->read(*version, offset, bytes);
        reading.push_back({std::move(slot), std::move(ticket)});
      }
      step(slice_bytes_);
    }
    for (Reading& last : reading) last.ticket.wait();
    return gb_per_s(total_bytes_, stopwatch.seconds());
  }

  const StreamBenchOptions& options_;
  const ProgressSink& progress_;
  std::uint64_t slice_bytes_;
  std::vector<std::string> keys_;
  // Used on the compute stream, which the rig ends: these outlive it.
  std::vector<std::uint64_t> expected_;
  std::atomic<std::uint64_t> num_wrong_{0};
  std::uint64_t total_bytes_ = 0;
  std::uint64_t work_bytes_ = 0;
  std::uint64_t done_bytes_ = 0;
  TierRig rig_;
};

}  // namespace

StreamBenchResult run_stream_bench(const StreamBenchOptions& options, const ProgressSink& progress) {
  return StreamBench(options, progress).run();
}

}  // namespace sluice
