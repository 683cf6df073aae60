// SPDX-License-Identifier: Apache-2.0
#include "plan/kept_versions.h"

#include <algorithm>

namespace sluice {

KeptVersions kept_versions(const RunCheckpoints& checkpoints, std::uint64_t num_steps) {
  const std::uint64_t interval = checkpoints.interval_steps;
  if (interval == 0 || num_steps == 0) return {};
  const std::uint64_t before_last = (num_steps - 1) / interval;
  const std::uint64_t kept = std::min(std::max<std::uint64_t>(checkpoints.most_kept, 1), before_last);
  // The step after a checkpoint stands on that checkpoint; the steps behind it have a commit of their own to stand on.
  const bool has_later_step = interval > 1 && num_steps >= kept * interval + 2;
  return {.in_steps = std::max<std::uint64_t>(kept + (has_later_step ? 1 : 0), 1), .in_commits = kept};
}

}  // namespace sluice
