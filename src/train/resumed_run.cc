// SPDX-License-Identifier: Apache-2.0
#include "train/resumed_run.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "train/remake_run_record.h"
#include "train/run_inputs.h"
#include "train/run_manifest.h"
#include "train/run_stores.h"

namespace sluice {
namespace {

RunRecord standing_record(FileSystem& files, IoEngine& engine, const TrainConfig& config, std::int64_t now_unix_s) {
  std::string why = "missing";
  try {
    if (const std::optional<RunRecord> record = RunManifest::read(files, engine, config.output_dir)) return *record;
  } catch (const FormatError& failure) {
    why = failure.what();
  }
  log_warning(fmt::format("{} of {} is made anew: {}", kRunRecordName, config.output_dir, why));
  return remake_run_record(files, engine, config, now_unix_s);
}

}  // namespace

RunRecord resumed_record(FileSystem& files, IoEngine& engine, const TrainConfig& config,
                         const std::vector<std::string>& begun_caches, std::int64_t now_unix_s) {
  RunRecord record = standing_record(files, engine, config, now_unix_s);
  if (!config.cache.empty() && config.cache != begun_caches) {
    record.stores = find_stores(files, engine, config.cache, record.id);
  }
  return record;
}

void require_own_stores(FileSystem& files, IoEngine& engine, const RunRecord& record, const std::string& output_dir) {
  for (const std::string& store : record.stores) {
    if (!store.starts_with('/')) continue;  // inside the run's folder, and copied with it
    const std::optional<StoreOwner> owner = read_store_owner(files, engine, store);
    if (!owner) continue;
    if (owner->run_id != record.id) {
      throw InvalidInput(
          fmt::format("the state in {} is that of another run, which was in {}: name the cache folders of this run "
                      "(cache=[...])",
                      store, owner->output_dir));
    }
    std::error_code failure;
    const bool is_here = std::filesystem::equivalent(owner->output_dir, output_dir, failure);
    if (!is_here && owner_is_there(files, engine, *owner)) {
      throw InvalidInput(
          fmt::format("{} is a copy of the run in {}, and both would change the one state in {}: go on with that run, "
                      "or delete its folder first",
                      output_dir, owner->output_dir, store));
    }
  }
}

std::vector<RunInput> require_same_inputs(const RunRecord& record, const TrainConfig& config, ChangedInputs changed,
                                          const ProgressSink& progress) {
  std::vector<RunInput> now = fingerprint_inputs(config, progress);
  if (record.inputs.empty()) return now;  // the record was made anew
  const std::vector<std::string> changes = changed_inputs(record.inputs, now);
  if (changes.empty()) return now;
  const std::string text = fmt::format("{}", fmt::join(changes, "; "));
  if (changed == ChangedInputs::kRefuse) {
    throw InvalidInput(
        fmt::format("the run in {} cannot go on as it began: {}; put back what it began with, or go on all the same "
                    "with --accept-changes",
                    config.output_dir, text));
  }
  log_warning(fmt::format("going on with what has changed: {}", text));
  return now;
}

}  // namespace sluice
