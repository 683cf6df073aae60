// SPDX-License-Identifier: Apache-2.0
#include "train/config_paths.h"

#include <filesystem>

namespace sluice {
namespace {

std::string absolute_from(const std::string& folder, const std::string& path) {
  if (path.empty()) return path;
  const std::filesystem::path whole = (std::filesystem::path(folder) / path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).string();
}

}  // namespace

std::string absolute_path(const std::string& path) {
  return absolute_from(std::filesystem::current_path().string(), path);
}

TrainConfig with_absolute_paths(TrainConfig config, const std::string& folder) {
  const auto mend = [&](std::string& path) { path = absolute_from(folder, path); };
  mend(config.base_model);
  for (DatasetChoice& dataset : config.datasets) mend(dataset.path);
  for (DatasetChoice& dataset : config.test_datasets) mend(dataset.path);
  mend(config.chat_template);
  mend(config.output_dir);
  for (std::string& cache : config.cache) mend(cache);
  // "latest" and a checkpoint's bare name are not paths.
  if (config.resume_from_checkpoint.find('/') != std::string::npos) mend(config.resume_from_checkpoint);
  return config;
}

}  // namespace sluice
