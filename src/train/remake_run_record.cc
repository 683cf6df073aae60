// SPDX-License-Identifier: Apache-2.0
#include "train/remake_run_record.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "format/checkpoint.h"
#include "format/model_folder.h"
#include "train/adapter_files.h"
#include "train/run_folder.h"
#include "train/run_stores.h"
#include "train/trainer_state.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool is_run_file(const fs::path& name) {
  static const std::set<std::string> kNames{
      "config.yaml", "plan.json",          "run.json",          "trainer_log.jsonl",    "loss_curve.svg",
      "train.log",   "train_results.json", "data/train.tokens", "data/held-out.tokens", std::string(kTrainerStateName)};
  if (kNames.contains(name.string())) return true;
  const std::string file = name.filename().string();
  const std::string top = name.begin()->string();
  if (top == "runs") return file.starts_with("events.out.tfevents.");
  const bool is_of_model = is_checkpoint_name(file) || is_side_file(file) || file == kAdapterConfigName ||
                           file == kAdapterWeightsName || name.parent_path().filename() == kNamedTemplatesFolder;
  const bool is_of_checkpoint = RunFolder::checkpoint_step(top).has_value();
  if (is_of_checkpoint) return is_of_model || file == kTrainerStateName;
  return is_of_model && (!name.has_parent_path() || top == kNamedTemplatesFolder);
}

}  // namespace

bool looks_like_run(FileSystem& files, const std::string& folder) {
  const auto has = [&](std::string_view name) { return files.exists(fmt::format("{}/{}", folder, name)); };
  return has("config.yaml") && (has("state") || has("trainer_log.jsonl"));
}

RunRecord remake_run_record(FileSystem& files, IoEngine& engine, const TrainConfig& config, std::int64_t now_unix_s) {
  RunRecord record{.id = new_run_id(), .started_unix_s = now_unix_s, .has_begun = true};
  const std::optional<StoreOwner> owner = find_owner(files, engine, config);
  if (owner) {
    record.id = owner->run_id;
    record.started_unix_s = owner->started_unix_s;
  }
  if (config.cache.empty()) {
    record.stores = new_store_directories(config, record.id);
  } else if (owner) {
    record.stores = find_stores(files, engine, config.cache, record.id);
  } else {
    throw InvalidInput(
        fmt::format("{} has no {} any more, and no folder in its cache says that it holds the state of this "
                    "run: name the cache folders that do (cache=[...])",
                    config.output_dir, kRunRecordName));
  }
  std::error_code failure;
  fs::recursive_directory_iterator entry(config.output_dir, failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    const fs::path name = entry->path().lexically_relative(config.output_dir);
    std::error_code unreadable;
    if (entry->is_regular_file(unreadable) && is_run_file(name)) record.files.insert(name.string());
  }
  return record;
}

}  // namespace sluice
