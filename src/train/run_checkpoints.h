// SPDX-License-Identifier: Apache-2.0
// The checkpoints that a run will keep, and those that one that goes on has kept: what its plan counts on the drives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/kept_versions.h"
#include "train/train_config.h"

namespace sluice {

// Where a run goes on, and what its store holds there.
struct StandingCheckpoints {
  std::uint64_t step = 0;
  std::uint64_t num_standing = 0;
  bool goes_on_between = false;
};

// Looks into the store of a run that goes on from its last commit, or from the checkpoint of a step. `folders`: steps
// that have a checkpoint folder; a snapshot without one is dropped as the run goes on.
StandingCheckpoints look_for_checkpoints(const std::vector<std::string>& store_directories,
                                         std::span<const std::uint64_t> folders,
                                         const std::optional<std::uint64_t>& from_step);

// `epoch_ends`: the steps with which epochs end; needed where save_strategy is epoch.
RunCheckpoints run_checkpoints(const TrainConfig& config, std::uint64_t num_steps,
                               std::span<const std::uint64_t> epoch_ends, const StandingCheckpoints& standing = {});

}  // namespace sluice
