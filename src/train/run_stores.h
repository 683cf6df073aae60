// SPDX-License-Identifier: Apache-2.0
// Where the state of a run lies: a directory of its own in each cache folder, or in the run's folder where there is no
// cache. The run's folder lists the directories; each directory names its run (owner.json), so that neither a run that
// was moved nor a cache that was mounted elsewhere loses the other.
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

// What a state directory says of its run.
struct StoreOwner {
  std::string run_id;
  std::string output_dir;  // absolute; where the run was last seen
  std::int64_t started_unix_s = 0;
};

// The directories of a new run, as its record lists them.
std::vector<std::string> new_store_directories(const TrainConfig& config, const std::string& run_id);
// The directories of a record as paths.
std::vector<std::string> store_paths(const RunRecord& record, const std::string& output_dir);

std::optional<StoreOwner> read_store_owner(FileSystem& files, IoEngine& engine, const std::string& directory);
void write_store_owner(FileSystem& files, IoEngine& engine, const std::string& directory, const StoreOwner& owner);
// The record of the run that owns the directory, looked for where the owner was last seen.
bool owner_is_there(FileSystem& files, IoEngine& engine, const StoreOwner& owner);

// The state directories of the run, one in each cache folder. Throws InvalidInput where one has none.
std::vector<std::string> find_stores(FileSystem& files, IoEngine& engine, const std::vector<std::string>& caches,
                                     const std::string& run_id);
// The same for a run whose record is lost: by the folder that its state was last used from. Nothing where there is
// none.
std::optional<StoreOwner> find_owner(FileSystem& files, IoEngine& engine, const TrainConfig& config);

// Deletes the state of a run in `output_dir` where no other run claims it: the original's, which this one is a copy of,
// stays.
void remove_run_state(FileSystem& files, IoEngine& engine, const RunRecord& record, const std::string& output_dir);
// Deletes a store's files from a directory, and the directory where nothing else is in it. Throws InvalidInput where a
// process uses the store.
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
