// SPDX-License-Identifier: Apache-2.0
// Timed commits for runs whose state lives in memory: their interval, and the bytes that each writes. A crash loses at
// most one interval of training. Values.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/machine.h"

namespace sluice {

struct CommitPlan {
  double every_s = 0;
  std::uint64_t bytes = 0;  // written per commit, all drives together
  double seconds = 0;       // duration of a commit

  double count(double run_s) const { return every_s > 0 ? run_s / every_s : 0; }
};

inline constexpr double kLeastCommitS = 600;      // minimum of the default interval
inline constexpr double kMostCommitShare = 0.03;  // share of the run's time
inline constexpr double kMostDailyWear = 0.001;   // per day, share of the drive's rated endurance

// `memory_bytes`: state that lives in memory. `wanted_s`: the user's interval; nullopt: the shortest within the limits
// above.
CommitPlan plan_commits(const Machine& machine, std::uint64_t memory_bytes, const std::optional<double>& wanted_s);

}  // namespace sluice
