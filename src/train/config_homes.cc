// SPDX-License-Identifier: Apache-2.0
#include "train/config_homes.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "format/json_text.h"

namespace sluice {

std::string with_home(const std::string& path, const std::string& what, const HomeOf& home_of) {
  if (!path.starts_with('~')) return path;
  const std::size_t slash = std::min(path.find('/'), path.size());
  const std::string user = path.substr(1, slash - 1);
  if (const std::optional<std::string> home = home_of(user)) return *home + path.substr(slash);
  throw InvalidInput(fmt::format("{}: {} begins with {}: write the whole path, or ./~ for a folder that is called so",
                                 what, in_quotes(path),
                                 user.empty() ? "a home, and none is known (HOME)"
                                              : fmt::format("the home of {}, who is no user here", in_quotes(user))));
}

TrainConfig with_homes(TrainConfig config, const HomeOf& home_of) {
  const auto expand = [&](std::string& path, const char* key) { path = with_home(path, key, home_of); };
  expand(config.base_model, "base_model");
  for (DatasetChoice& dataset : config.datasets) expand(dataset.path, "datasets");
  for (DatasetChoice& dataset : config.test_datasets) expand(dataset.path, "test_datasets");
  expand(config.chat_template, "chat_template");
  expand(config.output_dir, "output_dir");
  expand(config.resume_from_checkpoint, "resume_from_checkpoint");
  for (std::string& folder : config.cache) expand(folder, "cache");
  return config;
}

}  // namespace sluice
