// SPDX-License-Identifier: Apache-2.0
#include "train/output_dir.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "train/remake_run_record.h"
#include "train/run_record.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNamed = 3;

// Resolves symlinks of the existing part of the path.
fs::path resolved(const fs::path& path) {
  std::error_code failure;
  fs::path whole = fs::weakly_canonical(fs::absolute(path), failure);
  if (failure) whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

// Compares inodes too: a bind mount gives a folder a second path.
bool is_same_folder(const fs::path& left, const fs::path& right) {
  std::error_code failure;
  return left == right || (fs::equivalent(left, right, failure) && !failure);
}

bool is_above(const fs::path& outer, const fs::path& inner) {
  for (fs::path above = inner.parent_path();; above = above.parent_path()) {
    if (is_same_folder(outer, above)) return true;
    if (above == above.parent_path()) return false;
  }
}

// A folder that a run must not write to, and the configuration key that names it.
struct ForeignFolder {
  std::string key;
  fs::path path;
  enum class Below { kMayHoldOutput, kMayNotBeHeld } below = Below::kMayNotBeHeld;
};

class ForeignFolders {
 public:
  explicit ForeignFolders(const TrainConfig& config) {
    add_model(config.base_model);
    for (const DatasetChoice& dataset : config.datasets) add_file("datasets", dataset.path);
    for (const DatasetChoice& dataset : config.test_datasets) add_file("test_datasets", dataset.path);
    if (!config.chat_template.empty()) add_file("chat_template", config.chat_template);
    // The cache may lie inside the run's folder.
    for (const std::string& cache : config.cache) add("cache", cache, ForeignFolder::Below::kMayHoldOutput);
  }
  const std::vector<ForeignFolder>& folders() const { return folders_; }

 private:
  void add(std::string_view key, const fs::path& path,
           ForeignFolder::Below below = ForeignFolder::Below::kMayNotBeHeld) {
    folders_.push_back({std::string(key), resolved(path), below});
  }
  // Adds the folder in the file's path, and the folder of a symlink's target.
  void add_file(std::string_view key, const fs::path& path) {
    add(key, fs::absolute(path).parent_path());
    add(key, resolved(path).parent_path());
  }
  // Models in the Hugging Face cache are folders of symlinks into other folders.
  void add_model(const std::string& folder) {
    add("base_model", folder);
    std::error_code failure;
    fs::directory_iterator entry(folder, failure);
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
      if (entry->is_symlink(failure)) add("base_model", resolved(entry->path()).parent_path());
    }
  }

  std::vector<ForeignFolder> folders_;
};

}  // namespace

void require_own_output_dir(const TrainConfig& config) {
  const fs::path output = resolved(config.output_dir);
  const ForeignFolders folders(config);
  for (const ForeignFolder& foreign : folders.folders()) {
    if (is_same_folder(output, foreign.path)) {
      throw InvalidInput(
          fmt::format("output_dir: {} is the folder of {} ({}), which a run must not write to: name a "
                      "new folder",
                      config.output_dir, foreign.key, foreign.path.string()));
    }
    if (foreign.below == ForeignFolder::Below::kMayNotBeHeld && is_above(output, foreign.path)) {
      throw InvalidInput(fmt::format("output_dir: {} holds the folder of {} ({}): name a new folder beside it",
                                     config.output_dir, foreign.key, foreign.path.string()));
    }
  }
}

void require_empty_output_dir(FileSystem& files, const TrainConfig& config) {
  const std::string& folder = config.output_dir;
  if (!files.exists(folder)) return;
  files.require_directory(folder, OpenMode::kReadWrite);
  if (files.exists(fmt::format("{}/{}", folder, kRunRecordName))) return;
  std::vector<std::string> names = files.list(folder);
  std::erase(names, "lost+found");
  if (names.empty()) return;
  if (looks_like_run(files, folder)) {
    throw InvalidInput(
        fmt::format("output_dir: {} has no {}, but looks like a run that lost it: go on with 'sluice "
                    "resume {}', or name a new folder",
                    folder, kRunRecordName, folder));
  }
  const std::size_t num_more = names.size() - std::min(names.size(), kMostNamed);
  names.resize(names.size() - num_more);
  throw InvalidInput(
      fmt::format("output_dir: {} is not empty and no run of Sluice's made what it holds ({}{}): name a "
                  "new or an empty folder",
                  folder, fmt::join(names, ", "), num_more > 0 ? fmt::format(" and {} more", num_more) : ""));
}

}  // namespace sluice
