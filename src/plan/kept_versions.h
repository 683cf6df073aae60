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
  std::uint64_t interval_steps = 0;            // from one to the next; 0: there is none
  std::uint64_t most_kept = kEveryCheckpoint;  // at once; at least one
};

// Whole versions of what is trained that stand on the drives while the next one is made, at most.
struct KeptVersions {
  std::uint64_t in_steps = 1;                  // where every step is a commit
  std::optional<std::uint64_t> in_commits{0};  // where a commit takes what lives in memory too; none: there is none
};
KeptVersions kept_versions(const RunCheckpoints& checkpoints, std::uint64_t num_steps);

}  // namespace sluice
