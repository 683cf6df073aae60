// SPDX-License-Identifier: Apache-2.0
#include "train/run_manifest.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "format/model_folder.h"
#include "format/whole_file.h"
#include "train/run_stores.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxRecordBytes = 64 * kMiB;
constexpr std::string_view kLostAndFound = "lost+found";  // present at the root of every ext4 file system

std::string_view without_part(std::string_view name) {
  if (name.ends_with(kPartSuffix)) name.remove_suffix(kPartSuffix.size());
  return name;
}

// The parent folders of a name within the run's folder, the innermost first.
std::vector<std::string> folders_above(const std::string& name) {
  std::vector<std::string> folders;
  for (fs::path above = fs::path(name).parent_path(); !above.empty(); above = above.parent_path()) {
    folders.push_back(above.string());
  }
  return folders;
}

}  // namespace

std::vector<std::string> make_folders(const std::string& path) {
  std::vector<std::string> missing;
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  std::error_code failure;
  while (!folder.empty() && !fs::exists(folder, failure) && !failure) {
    missing.insert(missing.begin(), folder.string());
    folder = folder.parent_path();
  }
  make_model_folder(path);
  return missing;
}

RunManifest::RunManifest(FileSystem& files, IoEngine& engine, std::string folder)
    : files_(files), engine_(engine), folder_(std::move(folder)), made_folders_(make_folders(folder_)) {
  // Of two processes that start in one folder, both open the same file and one gets its lock.
  files_.open(path(kRunRecordName), OpenMode::kCreate, Caching::kPageCache);
  lock_ = files_.lock(path(kRunRecordName));
}

RunManifest::~RunManifest() {
  if (record_.has_begun) return;
  try {
    if (is_recorded_) {
      remove_all();
    } else if (const std::optional<RunRecord> there = read(files_, engine_, folder_); !there) {
      files_.remove(path(kRunRecordName));  // still empty
    }
    for (auto made = made_folders_.rbegin(); made != made_folders_.rend(); ++made) {
      if (files_.list(*made).empty()) files_.remove(*made);
    }
  } catch (const std::exception& error) {
    log_debug(fmt::format("'{}' keeps what a run that did not begin left there: {}", folder_, error.what()));
  }
}

std::optional<RunRecord> RunManifest::read(FileSystem& files, IoEngine& engine, const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kRunRecordName);
  if (!files.exists(path)) return std::nullopt;
  const std::string text = read_whole_file(files, engine, path, kMaxRecordBytes);
  if (text.empty()) return std::nullopt;
  return parse_run_record(text, path);
}

std::string RunManifest::path(std::string_view name) const { return fmt::format("{}/{}", folder_, name); }

void RunManifest::set_record(RunRecord record) {
  record_ = std::move(record);
  record_.files.insert(std::string(kRunRecordName));
  is_recorded_ = true;
  save();
}

void RunManifest::start_over(RunRecord record) {
  record_.has_begun = false;  // after a crash from here on, the next run may replace the listed files
  save();
  std::vector<std::string> names(record_.files.begin(), record_.files.end());
  std::erase(names, kRunRecordName);
  remove_run_state(files_, engine_, record_, folder_);
  delete_files(names);
  set_record(std::move(record));
}

void RunManifest::set_begun() {
  if (record_.has_begun) return;
  record_.has_begun = true;
  save();
}

void RunManifest::set_inputs(std::vector<RunInput> inputs) {
  if (record_.inputs == inputs) return;
  record_.inputs = std::move(inputs);
  save();
}

// The new file is locked before the rename, so that run.json is locked at every moment.
void RunManifest::save() {
  const std::string target = path(kRunRecordName);
  write_part_file(files_, engine_, target, run_record_json(record_));
  const std::string part = target + std::string(kPartSuffix);
  auto lock = files_.lock(part);
  files_.rename(part, target);
  lock_ = std::move(lock);
  files_.sync_directory(folder_);
}

bool RunManifest::owns(std::string_view name) const {
  return record_.files.contains(std::string(name)) || record_.files.contains(std::string(without_part(name)));
}

void RunManifest::claim(std::span<const std::string> names) {
  std::vector<std::string> added;
  for (const std::string& name : names) {
    if (owns(name)) continue;
    if (files_.exists(path(name))) {
      throw InvalidInput(
          fmt::format("'{}' is not of the run in {}, which needs that name: move the file away and go on "
                      "with 'sluice resume {}'",
                      path(name), folder_, folder_));
    }
    added.push_back(name);
  }
  if (added.empty()) return;
  record_.files.insert(added.begin(), added.end());
  save();
}

std::vector<std::string> RunManifest::files_in(std::string_view folder) const {
  const std::string prefix = fmt::format("{}/", folder);
  std::vector<std::string> names;
  for (auto name = record_.files.lower_bound(prefix); name != record_.files.end() && name->starts_with(prefix);
       ++name) {
    names.push_back(*name);
  }
  return names;
}

std::vector<std::string> RunManifest::foreign_files() const {
  std::vector<std::string> foreign;
  for (const std::string& name : files_.list(folder_)) {
    const bool is_store = std::find(record_.stores.begin(), record_.stores.end(), name) != record_.stores.end();
    const bool is_own = is_store || without_part(name) == kRunRecordName || owns(name) || !files_in(name).empty();
    if (!is_own && name != kLostAndFound) foreign.push_back(name);
  }
  return foreign;
}

// Deletes files, then the folders that became empty. Deleting a missing file is a no-op.
void RunManifest::delete_files(std::span<const std::string> names) {
  std::set<std::string, std::greater<>> folders;  // inner folders before outer ones
  for (const std::string& name : names) {
    files_.remove(path(name));
    files_.remove(path(name) + std::string(kPartSuffix));
    for (std::string& folder : folders_above(name)) folders.insert(std::move(folder));
  }
  for (const std::string& folder : folders) {
    if (files_.exists(path(folder)) && files_.list(path(folder)).empty()) files_.remove(path(folder));
  }
}

void RunManifest::remove(std::span<const std::string> names) {
  delete_files(names);
  for (const std::string& name : names) record_.files.erase(name);
  save();
}

void RunManifest::remove_all() {
  std::vector<std::string> names(record_.files.begin(), record_.files.end());
  // run.json is deleted last: until then it lists the remaining files.
  const auto record = std::find(names.begin(), names.end(), kRunRecordName);
  if (record != names.end()) std::rotate(record, record + 1, names.end());
  remove_run_state(files_, engine_, record_, folder_);
  delete_files(names);
  record_.files.clear();
}

}  // namespace sluice
