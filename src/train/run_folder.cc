// SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "format/checkpoint.h"
#include "format/checkpoint_writer.h"
#include "format/whole_file.h"
#include "model/checkpoint_slices.h"
#include "train/adapter_files.h"

namespace sluice {
namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kUnfinished = ".part";
constexpr const char* kModelName = "model";   // temporary folder of the final model
constexpr const char* kMark = ".unfinished";  // manifest entry: a temporary folder, owned with its contents
constexpr std::uint64_t kSideBytes = kMiB;    // estimate of the files beside the weights

namespace fs = std::filesystem;

void check(const std::error_code& error, std::string_view what, const std::string& path) {
  if (!error) return;
  throw IoError(error.value(), fmt::format("{} {}: {}", what, path, error.message()));
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_regular_file(error)) names.push_back(entry->path().lexically_relative(folder).string());
  }
  check(error, "could not list", folder);
  std::sort(names.begin(), names.end());
  return names;
}

// Whether readers find the weights through this file; such files are moved last.
bool names_weights(const std::string& name) {
  return name == kSafetensorsName || name == kSafetensorsIndexName || name == kAdapterConfigName;
}

bool is_model_file(const std::string& name) {
  return is_checkpoint_name(name) || is_side_file(name) || name == kAdapterConfigName || name == kAdapterWeightsName ||
         name.starts_with(std::string(kNamedTemplatesFolder) + "/");
}

}  // namespace

RunFolder::RunFolder(Parts parts) : parts_(std::move(parts)) {}

std::string RunFolder::checkpoint_name(std::uint64_t step) { return fmt::format("{}{}", kPrefix, step); }

std::optional<std::uint64_t> RunFolder::checkpoint_step(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t step = 0;
  const auto [end, failure] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (failure != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

std::vector<std::uint64_t> RunFolder::checkpoints() const {
  std::vector<std::uint64_t> steps;
  for (const std::string& name : parts_.manifest->record().files) {
    const std::string folder = name.substr(0, name.find('/'));
    const std::optional<std::uint64_t> step = checkpoint_step(folder);
    if (!step || folder == name || !fs::is_directory(path(folder))) continue;
    if (std::find(steps.begin(), steps.end(), *step) == steps.end()) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void RunFolder::write_side_files(const std::string& folder, SideFiles which) const {
  copy_side_files(
      *parts_.files, *parts_.engine,
      {.from_folder = parts_.base_model, .to_folder = folder, .which = which, .chat_template = parts_.chat_template});
}

void RunFolder::write_adapter(const std::string& folder, const WeightsOfSlice& weights) const {
  write_adapter_weights(*parts_.files, *parts_.engine, *parts_.model, folder, weights);
  write_whole_file(*parts_.files, *parts_.engine, folder + "/" + kAdapterConfigName,
                   adapter_config_text(*parts_.model, parts_.base_model));
  write_side_files(folder, SideFiles::kTokenizer);
}

void RunFolder::write_model(const std::string& folder, const WeightsOfSlice& weights,
                            const ProgressSink& progress) const {
  const ModelDescription& model = *parts_.model;
  if (model.arch.adapter.exists()) {
    write_adapter(folder, weights);
    return;
  }
  CheckpointWriter writer(*parts_.files, *parts_.engine, folder, {.tensors = plan_tensors(model, parts_.dtype)});
  const std::size_t total = num_slices(model.arch);
  for (std::size_t slice_idx = 0; slice_idx < total; ++slice_idx) {
    write_slice(writer, model, slice_idx, weights(slice_idx), parts_.dtype, parts_.dtype);
    progress.report({.what = "saving", .done = slice_idx + 1, .total = total, .unit = ProgressUnit::kSlices});
  }
  writer.finish();
  write_side_files(folder, SideFiles::kAll);
}

// Said before anything is written: a drive that is filled to the brim is of no use to anyone.
void RunFolder::require_room(const std::string& what) const {
  std::uint64_t needed = kSideBytes;
  const bool is_adapter = parts_.model->arch.adapter.exists();
  const auto tensors = is_adapter ? plan_adapter_tensors(*parts_.model) : plan_tensors(*parts_.model, parts_.dtype);
  for (const PlannedTensor& tensor : tensors) needed += tensor.size_bytes();
  const std::uint64_t free = parts_.files->free_bytes(parts_.output_dir);
  if (needed <= free) return;
  throw IoError(ENOSPC,
                fmt::format("the drive of '{}' is full: {} takes {} there and {} are free; free {}", parts_.output_dir,
                            what, format_bytes(needed), format_bytes(free), format_bytes(needed - free)));
}

void RunFolder::remove_unfinished(const std::string& name) const {
  std::error_code error;
  fs::remove_all(path(name), error);
  check(error, "could not remove", path(name));
  parts_.manifest->remove(std::vector{fmt::format("{}/{}", name, kMark)});
}

std::vector<std::string> RunFolder::write_unfinished(const std::string& name,
                                                     const std::function<void(const std::string&)>& fill) const {
  if (!parts_.manifest->files_in(name).empty()) remove_unfinished(name);
  if (fs::exists(path(name))) {
    throw InvalidInput(
        fmt::format("'{}' is not of the run, which needs that name: move it away and go on with 'sluice "
                    "resume {}'",
                    path(name), parts_.output_dir));
  }
  parts_.manifest->claim(fmt::format("{}/{}", name, kMark));
  try {
    make_model_folder(path(name));
    fill(path(name));
    return files_below(path(name));
  } catch (const Error&) {
    std::error_code error;
    fs::remove_all(path(name), error);  // the original failure is reported, not this one
    throw;
  }
}

void RunFolder::save_checkpoint(std::uint64_t step, const WeightsOfSlice& weights,
                                const std::function<void(const std::string&)>& add) const {
  const std::string target = checkpoint_name(step);
  const std::string part = target + std::string(kUnfinished);
  require_room(target);
  const std::vector<std::string> names = write_unfinished(part, [&](const std::string& folder) {
    write_model(folder, weights, {});
    if (add) add(folder);
  });
  remove_checkpoint(step);  // from before a rollback to an earlier step
  std::vector<std::string> listed;
  listed.reserve(names.size());
  for (const std::string& name : names) listed.push_back(fmt::format("{}/{}", target, name));
  parts_.manifest->claim(listed);
  if (fs::exists(path(target))) {
    put_in_place(part, target + "/", names);  // the folder exists, with the user's own files in it
  } else {
    std::error_code error;
    fs::rename(path(part), path(target), error);
    check(error, "could not finish", path(target));
  }
  remove_unfinished(part);
}

void RunFolder::remove_checkpoint(std::uint64_t step) const {
  parts_.manifest->remove(parts_.manifest->files_in(checkpoint_name(step)));
}

void RunFolder::save_model(const WeightsOfSlice& weights, const ProgressSink& progress) const {
  require_room("the model");
  const std::string part = kModelName + std::string(kUnfinished);
  const std::vector<std::string> names =
      write_unfinished(part, [&](const std::string& folder) { write_model(folder, weights, progress); });
  parts_.manifest->claim(names);
  // Files of the run's previous model that the new one does not have.
  std::vector<std::string> old_names;
  for (const std::string& name : parts_.manifest->record().files) {
    const bool is_new = std::find(names.begin(), names.end(), name) != names.end();
    if (!is_new && is_model_file(name)) old_names.push_back(name);
  }
  put_in_place(part, "", names);
  parts_.manifest->remove(old_names);
  remove_unfinished(part);
}

void RunFolder::put_in_place(const std::string& unfinished, const std::string& prefix,
                             const std::vector<std::string>& names) const {
  FileSystem& files = *parts_.files;
  std::vector<std::string> ordered = names;
  std::stable_partition(ordered.begin(), ordered.end(), [](const std::string& name) { return !names_weights(name); });
  for (const std::string& name : ordered) {
    const fs::path target = path(prefix + name);
    make_model_folder(target.parent_path().string());
    if (names_weights(name)) files.sync_directory(target.parent_path().string());
    files.rename(path(fmt::format("{}/{}", unfinished, name)), target.string());
  }
  files.sync_directory(parts_.output_dir);
}

void RunFolder::remove_leftovers() const {
  std::vector<std::string> unfinished;
  for (const std::string& name : parts_.manifest->record().files) {
    if (name.ends_with(fmt::format("{}/{}", kUnfinished, kMark))) {
      unfinished.push_back(name.substr(0, name.find('/')));
    }
  }
  for (const std::string& name : unfinished) remove_unfinished(name);
}

}  // namespace sluice
