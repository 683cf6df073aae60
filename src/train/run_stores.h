// SPDX-License-Identifier: Apache-2.0
// State directories of a run: one in each cache folder, or in the run's folder if there is no cache. run.json lists the
// directories and each directory names its run (owner.json), so that they find each other after either was moved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/io_engine.h"
#include "train/run_record.h"
#include "train/train_config.h"

namespace sluice {

// The run that a state directory belongs to (owner.json).
struct StoreOwner {
  std::string run_id;
  std::string output_dir;  // absolute; the run's folder when the state was last used
  std::int64_t started_unix_s = 0;
};

// State directories of a new run, in the form of RunRecord::stores.
std::vector<std::string> new_store_directories(const TrainConfig& config, const std::string& run_id);
// The paths of a record's state directories.
std::vector<std::string> store_paths(const RunRecord& record, const std::string& output_dir);

std::optional<StoreOwner> read_store_owner(FileSystem& files, IoEngine& engine, const std::string& directory);
void write_store_owner(FileSystem& files, IoEngine& engine, const std::string& directory, const StoreOwner& owner);
// Whether the owner's last known folder still holds the record of its run.
bool owner_is_there(FileSystem& files, IoEngine& engine, const StoreOwner& owner);

// The state directories of the run, one in each cache folder. Throws InvalidInput if a cache folder has none.
std::vector<std::string> find_stores(FileSystem& files, IoEngine& engine, const std::vector<std::string>& caches,
                                     const std::string& run_id);
// The owner of a run's state if run.json is lost, found by the folder that last used it. nullopt: none.
std::optional<StoreOwner> find_owner(FileSystem& files, IoEngine& engine, const TrainConfig& config);

// Deletes the state that the record of the run in `output_dir` names, unless another run claims it: a copy of a run
// names the original's state.
void remove_run_state(FileSystem& files, IoEngine& engine, const RunRecord& record, const std::string& output_dir);
// Deletes a store's files from a directory, and the directory if it is then empty. Throws InvalidInput if a process
// uses the store.
void remove_store(FileSystem& files, const std::string& directory);

// A state directory as `sluice store list` shows it.
struct FoundStore {
  std::string directory;
  std::uint64_t size_bytes = 0;
  std::optional<StoreOwner> owner;
  enum class Use { kOwned, kOrphaned, kInUse, kUnknown } use = Use::kUnknown;  // kUnknown: no owner.json
};
// `folder`: a cache folder, a run's folder, or a state directory itself.
std::vector<FoundStore> look_for_stores(FileSystem& files, IoEngine& engine, const std::string& folder);

}  // namespace sluice
