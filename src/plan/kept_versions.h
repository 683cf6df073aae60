// SPDX-License-Identifier: Apache-2.0
// What a run's checkpoints make the drives hold: versions of the state that stand until the next one is whole.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace sluice {

inline constexpr std::uint64_t kEveryCheckpoint = std::numeric_limits<std::uint64_t>::max();

// Checkpoints of a run, which is committed at its end in any case.
struct RunCheckpoints {
  std::uint64_t num_standing = 0;              // when it begins, or goes on
  bool goes_on_between = false;                // from a commit that is none of them
  std::uint64_t num_to_come = 0;               // before the last step
  bool is_every_step = false;                  // one of them
  std::uint64_t most_kept = kEveryCheckpoint;  // at once, once the next has come; save_total_limit
  std::uint64_t least_kept = 1;                // that this can be
  bool has_commits_between = false;            // timed commits of state in memory; each replaces the last
};

// Whole versions of what is trained that stand on the drives while the next one is made, at most.
struct KeptVersions {
  std::uint64_t in_steps = 1;                  // where every step is a commit
  std::optional<std::uint64_t> in_commits{0};  // where a commit takes what lives in memory too; none: there is none
};
KeptVersions kept_versions(const RunCheckpoints& checkpoints);

}  // namespace sluice
