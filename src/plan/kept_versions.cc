// SPDX-License-Identifier: Apache-2.0
#include "plan/kept_versions.h"

#include <algorithm>

namespace sluice {

KeptVersions kept_versions(const RunCheckpoints& checkpoints) {
  const std::uint64_t at_first = checkpoints.num_standing + (checkpoints.goes_on_between ? 1 : 0);
  // With the next checkpoint those that are too many go.
  const std::uint64_t kept = std::min(std::max(checkpoints.most_kept, checkpoints.least_kept),
                                      checkpoints.num_standing + checkpoints.num_to_come);
  // The step after a checkpoint stands on that checkpoint; those behind it have a commit of their own to stand on.
  const std::uint64_t in_steps = std::max(kept, checkpoints.num_standing) + (checkpoints.is_every_step ? 0 : 1);
  // The last timed commit is kept until the next is complete, in addition to every checkpoint.
  const std::uint64_t between = checkpoints.has_commits_between ? 1 : 0;
  return {.in_steps = std::max<std::uint64_t>({at_first, in_steps, 1}),
          .in_commits = std::max(at_first, std::max(kept, checkpoints.num_standing) + between)};
}

}  // namespace sluice
