// SPDX-License-Identifier: Apache-2.0
#include "bench/commit_bench.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/core.h>

#include "base/random.h"
#include "base/units.h"
#include "bench/statistics.h"
#include "bench/tier_rig.h"

namespace sluice {
namespace {

std::uint64_t step_of(const std::string& note) {
  std::uint64_t step = 0;
  std::from_chars(note.data(), note.data() + note.size(), step);
  return step;
}

}  // namespace

CommitBenchResult run_commit_bench(const CommitBenchOptions& options, const ProgressSink& progress) {
  CommitBenchResult result;
  TierRig rig({.directories = options.directories,
               .host_bytes = options.host_bytes,
               .device_bytes = options.device_bytes,
               .engine = options.engine,
               .store = options.afterwards == CommitBenchOptions::Afterwards::kKeep ? TierRigOptions::Store::kKept
                                                                                    : TierRigOptions::Store::kScratch});
  const std::uint64_t slice_bytes = std::max(round_down(options.device_bytes / kSlicesOnDevice, kMiB), kMiB);
  const std::uint64_t num_slices = std::max<std::uint64_t>(1, options.size_bytes / slice_bytes);
  result.engine = rig.choice.engine->name();
  result.first_step = step_of(rig.store->last_note());
  result.last_step = result.first_step;
  // Two versions live at once: the committed one and the one that replaces it.
  rig.store->reserve_space(2 * num_slices * slice_bytes - std::min(rig.store->taken_bytes(), num_slices * slice_bytes));

  std::vector<double> commit_seconds;
  const Stopwatch whole(rig.clock);
  const std::uint64_t total_bytes = options.num_steps * num_slices * slice_bytes;
  std::uint64_t done_bytes = 0;
  while (result.last_step < result.first_step + options.num_steps && !progress.interrupted()) {
    const std::uint64_t step = result.last_step + 1;
    for (std::uint64_t i = 0; i < num_slices; ++i) {
      const std::string key = fmt::format("slice.{}", i);
      Lease lease = rig.tier.resident(key) ? rig.tier.acquire(key) : rig.tier.create(key, slice_bytes);
      rig.compute->run([bytes = lease.bytes(), seed = step << 32 | i] { Random(seed).fill(bytes); });
      lease.use_on(*rig.compute);
      lease.mark_dirty();
      done_bytes += slice_bytes;
      progress.report({.what = "bench commit", .done = done_bytes, .total = total_bytes});
    }
    rig.tier.save_dirty();
    const Stopwatch commit(rig.clock);
    rig.store->commit(std::to_string(step));
    commit_seconds.push_back(commit.seconds());
    result.last_step = step;
    options.on_commit(step);
  }
  result.gb_per_s = gb_per_s(done_bytes, whole.seconds());
  if (!commit_seconds.empty()) result.commit_s = median(commit_seconds);
  result.drive_bytes_written = rig.store->drive_bytes_written();
  return result;
}

}  // namespace sluice
