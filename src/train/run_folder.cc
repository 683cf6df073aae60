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
#include "format/checkpoint_writer.h"
#include "format/model_folder.h"
#include "format/whole_file.h"
#include "model/checkpoint_slices.h"
#include "train/adapter_files.h"

namespace sluice {
namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kUnfinished = ".part";
constexpr std::uint64_t kSideBytes = kMiB;  // about what lies beside the weights

void check(const std::error_code& error, std::string_view what, const std::string& path) {
  if (!error) return;
  throw IoError(error.value(), fmt::format("{} {}: {}", what, path, error.message()));
}

}  // namespace

RunFolder::RunFolder(Parts parts) : parts_(std::move(parts)) { make_model_folder(parts_.output_dir); }

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
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parts_.output_dir, error)) {
    if (const auto step = checkpoint_step(entry.path().filename().string())) steps.push_back(*step);
  }
  check(error, "could not list", parts_.output_dir);
  std::sort(steps.begin(), steps.end());
  return steps;
}

void RunFolder::write_adapter(const std::string& folder, const WeightsOfSlice& weights) const {
  write_adapter_weights(*parts_.files, *parts_.engine, *parts_.model, folder, weights);
  write_whole_file(*parts_.files, *parts_.engine, folder + "/" + kAdapterConfigName,
                   adapter_config_text(*parts_.model, parts_.base_model));
  copy_side_files(*parts_.files, *parts_.engine, parts_.base_model, folder, SideFiles::kTokenizer);
}

void RunFolder::write_model(const std::string& folder, const WeightsOfSlice& weights,
                            const ProgressSink& progress) const {
  const ModelDescription& model = *parts_.model;
  if (model.arch.adapter.exists()) {
    write_adapter(folder, weights);
    return;
  }
  CheckpointWriter writer(
      *parts_.files, *parts_.engine, folder,
      {.tensors = plan_tensors(model, parts_.dtype), .existing = ExistingFiles::kReplaceCheckpoint});
  const std::size_t total = num_slices(model.arch);
  for (std::size_t slice_idx = 0; slice_idx < total; ++slice_idx) {
    write_slice(writer, model, slice_idx, weights(slice_idx), parts_.dtype, parts_.dtype);
    progress.report({.what = "saving", .done = slice_idx + 1, .total = total, .unit = ProgressUnit::kSlices});
  }
  writer.finish();
  copy_side_files(*parts_.files, *parts_.engine, parts_.base_model, folder, SideFiles::kAll);
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

void RunFolder::save_checkpoint(std::uint64_t step, const WeightsOfSlice& weights,
                                const std::function<void(const std::string&)>& add) const {
  const std::string target = path(checkpoint_name(step));
  const std::string part = target + std::string(kUnfinished);
  std::error_code error;
  std::filesystem::remove_all(part, error);
  check(error, "could not remove", part);
  require_room(checkpoint_name(step));
  try {
    make_model_folder(part);
    write_model(part, weights, {});
    if (add) add(part);
  } catch (const Error&) {
    std::filesystem::remove_all(part, error);  // what failed is what is told
    throw;
  }
  std::filesystem::remove_all(target, error);  // of a run that went back and came here again
  check(error, "could not replace", target);
  std::filesystem::rename(part, target, error);
  check(error, "could not finish", target);
}

void RunFolder::remove_checkpoint(std::uint64_t step) const {
  const std::string target = path(checkpoint_name(step));
  std::error_code error;
  std::filesystem::remove_all(target, error);
  check(error, "could not remove", target);
}

void RunFolder::save_model(const WeightsOfSlice& weights, const ProgressSink& progress) const {
  require_room("the model");
  write_model(parts_.output_dir, weights, progress);
}

void RunFolder::remove_run() const {
  // The first says that there is a run; data prepared for another is made anew anyway.
  std::vector<std::string> names{"run.json",
                                 "state",
                                 "runs",
                                 "plan.json",
                                 "trainer_log.jsonl",
                                 "trainer_state.json",
                                 "train_results.json",
                                 "train.log",
                                 "loss_curve.svg",
                                 kAdapterConfigName,
                                 kAdapterWeightsName};
  for (const std::uint64_t step : checkpoints()) names.push_back(checkpoint_name(step));
  for (const std::string& name : names) {
    std::error_code error;
    std::filesystem::remove_all(path(name), error);
    check(error, "could not remove", path(name));
  }
}

void RunFolder::remove_leftovers() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parts_.output_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kUnfinished)) continue;
    std::error_code removal;
    std::filesystem::remove_all(entry.path(), removal);
    check(removal, "could not remove", entry.path().string());
  }
}

}  // namespace sluice
