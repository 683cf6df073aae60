// SPDX-License-Identifier: Apache-2.0
#include "train/run_checkpoints.h"

#include <algorithm>

#include "io/choose_engine.h"
#include "io/posix/posix_file.h"
#include "tier/slice_store.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace sluice {

StandingCheckpoints look_for_checkpoints(const std::vector<std::string>& store_directories,
                                         std::span<const std::uint64_t> folders,
                                         const std::optional<std::uint64_t>& from_step) {
  PosixFileSystem files;
  const EngineChoice choice = choose_engine(store_directories);
  const StoreHome home{files, *choice.engine, choice.caching, store_directories};
  StandingCheckpoints standing;
  if (!SliceStore::holds_store(home)) return standing;
  const auto store = SliceStore::open(home, StoreAccess::kLookOnly);
  if (store->committed().empty()) return standing;
  standing.step = from_step ? *from_step : RunPosition::from_note(store->last_note()).step;
  standing.goes_on_between = true;
  for (const SnapshotInfo& snapshot : store->snapshots()) {
    const std::optional<std::uint64_t> step = RunFolder::checkpoint_step(snapshot.name);
    if (!step || *step > standing.step) continue;
    if (*step == standing.step) standing.goes_on_between = false;
    const bool has_folder = std::find(folders.begin(), folders.end(), *step) != folders.end();
    if (has_folder || *step == standing.step) ++standing.num_standing;
  }
  return standing;
}

RunCheckpoints run_checkpoints(const TrainConfig& config, std::uint64_t num_steps,
                               std::span<const std::uint64_t> epoch_ends, const StandingCheckpoints& standing) {
  RunCheckpoints checkpoints{.num_standing = standing.num_standing, .goes_on_between = standing.goes_on_between};
  // That of the step it goes on from may be due still.
  const std::uint64_t done = standing.goes_on_between && standing.step > 0 ? standing.step - 1 : standing.step;
  if (config.save_strategy == RunStrategy::kSteps && num_steps > 0) {
    const std::uint64_t interval = config.save_steps.resolve(num_steps);
    const std::uint64_t before_last = (num_steps - 1) / interval;
    checkpoints.num_to_come = before_last - std::min(before_last, done / interval);
    checkpoints.is_every_step = interval == 1;
  } else if (config.save_strategy == RunStrategy::kEpoch) {
    checkpoints.num_to_come = static_cast<std::uint64_t>(std::count_if(
        epoch_ends.begin(), epoch_ends.end(), [&](std::uint64_t step) { return step > done && step < num_steps; }));
  }
  checkpoints.least_kept = config.load_best_model_at_end ? 2 : 1;  // the best stays beside the newest
  if (config.save_total_limit) checkpoints.most_kept = *config.save_total_limit;
  return checkpoints;
}

}  // namespace sluice
