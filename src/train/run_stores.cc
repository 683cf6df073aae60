// SPDX-License-Identifier: Apache-2.0
#include "train/run_stores.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "format/json_text.h"
#include "format/whole_file.h"
#include "tier/store_files.h"
#include "train/run_manifest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStateName = "state";
constexpr std::size_t kIdDigitsInName = 8;

std::string last_name(const std::string& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

bool is_same_folder(const std::string& left, const std::string& right) {
  std::error_code failure;
  return left == right || (fs::equivalent(left, right, failure) && !failure);
}

bool holds_store_files(FileSystem& files, const std::string& directory) {
  const std::vector<std::string>& names = store_file_names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name != kStoreOwnerName && files.exists(fmt::format("{}/{}", directory, name));
  });
}

// Subdirectories, sorted; empty if the folder cannot be read.
std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> folders;
  std::error_code failure;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    std::error_code unreadable;
    if (entry->is_directory(unreadable)) folders.push_back(entry->path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::uint64_t file_bytes(const std::string& directory) {
  std::uint64_t total = 0;
  for (const std::string& name : store_file_names()) {
    std::error_code failure;
    const std::uintmax_t size = fs::file_size(fmt::format("{}/{}", directory, name), failure);
    if (!failure) total += size;
  }
  return total;
}

bool is_in_use(FileSystem& files, const std::string& directory) {
  if (!files.exists(data_path(directory))) return false;
  try {
    files.lock(data_path(directory));
    return false;
  } catch (const InvalidInput&) {
    return true;
  }
}

FoundStore look_at(FileSystem& files, IoEngine& engine, const std::string& directory) {
  FoundStore found{.directory = directory, .size_bytes = file_bytes(directory)};
  found.owner = read_store_owner(files, engine, directory);
  if (is_in_use(files, directory)) {
    found.use = FoundStore::Use::kInUse;
  } else if (found.owner) {
    found.use = owner_is_there(files, engine, *found.owner) ? FoundStore::Use::kOwned : FoundStore::Use::kOrphaned;
  }
  return found;
}

}  // namespace

std::vector<std::string> new_store_directories(const TrainConfig& config, const std::string& run_id) {
  if (config.cache.empty()) return {kStateName};
  const std::string name =
      fmt::format("{}-{}", last_name(config.output_dir), std::string_view(run_id).substr(0, kIdDigitsInName));
  std::vector<std::string> directories;
  for (const std::string& cache : config.cache) {
    directories.push_back((fs::absolute(cache) / name).lexically_normal().string());
  }
  return directories;
}

std::vector<std::string> store_paths(const RunRecord& record, const std::string& output_dir) {
  std::vector<std::string> paths;
  for (const std::string& store : record.stores) {
    paths.push_back(store.starts_with('/') ? store : fmt::format("{}/{}", output_dir, store));
  }
  return paths;
}

std::optional<StoreOwner> read_store_owner(FileSystem& files, IoEngine& engine, const std::string& directory) {
  const std::string path = fmt::format("{}/{}", directory, kStoreOwnerName);
  try {
    if (!files.exists(path)) return std::nullopt;
    const nlohmann::json json = parse_json(read_whole_file(files, engine, path, kMiB), path);
    if (!json.at("started_unix_s").is_number_integer()) throw FormatError("started_unix_s is not a whole number");
    return StoreOwner{.run_id = json.at("run_id").get<std::string>(),
                      .output_dir = json.at("output_dir").get<std::string>(),
                      .started_unix_s = json.at("started_unix_s").get<std::int64_t>()};
  } catch (const nlohmann::json::exception& failure) {
    log_warning(fmt::format("{} does not name a run: {}", path, on_one_line(failure.what())));
  } catch (const Error& failure) {
    log_warning(fmt::format("{} does not name a run: {}", path, failure.what()));
  }
  return std::nullopt;
}

void write_store_owner(FileSystem& files, IoEngine& engine, const std::string& directory, const StoreOwner& owner) {
  const nlohmann::ordered_json json{
      {"run_id", owner.run_id}, {"output_dir", owner.output_dir}, {"started_unix_s", owner.started_unix_s}};
  write_whole_file(files, engine, fmt::format("{}/{}", directory, kStoreOwnerName),
                   json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

bool owner_is_there(FileSystem& files, IoEngine& engine, const StoreOwner& owner) {
  try {
    const std::optional<RunRecord> record = RunManifest::read(files, engine, owner.output_dir);
    return record && record->id == owner.run_id;
  } catch (const Error& failure) {
    log_debug(fmt::format("the run in {} cannot be looked at: {}", owner.output_dir, failure.what()));
    return true;  // unreadable is not the same as deleted
  }
}

std::vector<std::string> find_stores(FileSystem& files, IoEngine& engine, const std::vector<std::string>& caches,
                                     const std::string& run_id) {
  std::vector<std::string> stores;
  for (const std::string& cache : caches) {
    const std::vector<std::string> folders = folders_in(cache);
    const auto found = std::find_if(folders.begin(), folders.end(), [&](const std::string& folder) {
      const std::optional<StoreOwner> owner = read_store_owner(files, engine, folder);
      return owner && owner->run_id == run_id;
    });
    if (found == folders.end()) {
      throw InvalidInput(
          fmt::format("cache: {} holds no state of run {}: name the folders that hold it, or leave cache "
                      "as the run has it",
                      cache, run_id));
    }
    stores.push_back(*found);
  }
  return stores;
}

std::optional<StoreOwner> find_owner(FileSystem& files, IoEngine& engine, const TrainConfig& config) {
  const std::vector<std::string> places = config.cache.empty() ? std::vector{config.output_dir} : config.cache;
  for (const std::string& place : places) {
    for (const std::string& folder : folders_in(place)) {
      std::optional<StoreOwner> owner = read_store_owner(files, engine, folder);
      if (owner && (config.cache.empty() || is_same_folder(owner->output_dir, config.output_dir))) return owner;
    }
  }
  return std::nullopt;
}

void remove_run_state(FileSystem& files, IoEngine& engine, const RunRecord& record, const std::string& output_dir) {
  for (const std::string& store : store_paths(record, output_dir)) {
    const bool is_inside = store.starts_with(output_dir + "/");
    const std::optional<StoreOwner> owner = is_inside ? std::nullopt : read_store_owner(files, engine, store);
    const bool is_here = !owner || is_same_folder(owner->output_dir, output_dir);
    if (owner && (owner->run_id != record.id || (!is_here && owner_is_there(files, engine, *owner)))) {
      log_warning(fmt::format("the state in {} stays: it belongs to the run in {}", store, owner->output_dir));
      continue;
    }
    remove_store(files, store);
  }
}

void remove_store(FileSystem& files, const std::string& directory) {
  if (!files.exists(directory)) return;
  std::unique_ptr<FileLock> lock;
  if (files.exists(data_path(directory))) lock = files.lock(data_path(directory));
  for (const std::vector<std::string>& names : {leftover_file_names(), store_file_names()}) {
    for (const std::string& name : names) files.remove(fmt::format("{}/{}", directory, name));
  }
  if (files.list(directory).empty()) files.remove(directory);
}

std::vector<FoundStore> look_for_stores(FileSystem& files, IoEngine& engine, const std::string& folder) {
  files.require_directory(folder, OpenMode::kReadOnly);
  std::vector<FoundStore> stores;
  if (holds_store_files(files, folder)) return {look_at(files, engine, folder)};
  for (const std::string& directory : folders_in(folder)) {
    if (holds_store_files(files, directory)) stores.push_back(look_at(files, engine, directory));
  }
  return stores;
}

}  // namespace sluice
