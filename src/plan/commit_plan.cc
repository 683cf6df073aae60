// SPDX-License-Identifier: Apache-2.0
#include "plan/commit_plan.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr double kSecondsADay = 24 * 3600;

// The shortest commit interval within every drive's daily wear limit.
double interval_of_wear(const Machine& machine, std::uint64_t memory_bytes) {
  double interval_s = 0;
  for (std::size_t idx = 0; idx < machine.drives.size(); ++idx) {
    const std::optional<std::uint64_t>& endurance = machine.drives[idx].endurance_bytes;
    if (!endurance || *endurance == 0) continue;
    const double written = static_cast<double>(memory_bytes) * machine.drive_share(idx);
    interval_s = std::max(interval_s, written / (static_cast<double>(*endurance) * kMostDailyWear) * kSecondsADay);
  }
  return interval_s;
}

}  // namespace

CommitPlan plan_commits(const Machine& machine, std::uint64_t memory_bytes, const std::optional<double>& wanted_s) {
  CommitPlan plan{.bytes = memory_bytes};
  const double rate = machine.drives_write_bytes_per_s();
  if (rate > 0) plan.seconds = static_cast<double>(memory_bytes) / rate;
  plan.every_s = wanted_s.value_or(
      std::max({kLeastCommitS, plan.seconds / kMostCommitShare, interval_of_wear(machine, memory_bytes)}));
  return plan;
}

}  // namespace sluice
