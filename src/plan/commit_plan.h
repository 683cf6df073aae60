// SPDX-License-Identifier: Apache-2.0
// Commits by time, for runs whose state lives in memory: how often, and what each of them writes. A crash then loses at
// most that much time. Values.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/machine.h"

namespace sluice {

struct CommitPlan {
  double every_s = 0;
  std::uint64_t bytes = 0;  // that one commit writes, all drives together
  double seconds = 0;       // that it takes

  double count(double run_s) const { return every_s > 0 ? run_s / every_s : 0; }
};

inline constexpr double kLeastCommitS = 600;      // of an interval that nobody asked for
inline constexpr double kMostCommitShare = 0.03;  // of a run's time
inline constexpr double kMostDailyWear = 0.001;   // of the writes that a drive's maker warrants

// `memory_bytes`: of the state, what lives in memory. `wanted_s`: the user's interval; nothing: as often as costs at
// most those shares, but not oftener than every ten minutes.
CommitPlan plan_commits(const Machine& machine, std::uint64_t memory_bytes, const std::optional<double>& wanted_s);

}  // namespace sluice
