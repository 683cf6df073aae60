// SPDX-License-Identifier: Apache-2.0
#include "format/unfinished_folder.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "format/checkpoint.h"
#include "format/model_folder.h"
#include "format/whole_file.h"

namespace sluice {
namespace {

bool is_of_model(std::string_view name) {
  if (name.ends_with(kPartSuffix)) name.remove_suffix(kPartSuffix.size());
  return is_checkpoint_name(name) || is_side_file(name) || name == kNamedTemplatesFolder;
}

}  // namespace

UnfinishedFolder::UnfinishedFolder(FileSystem& files, std::string path)
    : files_(files), path_(std::move(path)), before_(files.list(path_)) {}

UnfinishedFolder::~UnfinishedFolder() {
  if (is_finished_) return;
  try {
    for (const std::string& name : files_.list(path_)) {
      const bool is_new = std::find(before_.begin(), before_.end(), name) == before_.end();
      if (!is_new || !is_of_model(name)) continue;
      const std::string path = fmt::format("{}/{}", path_, name);
      if (name == kNamedTemplatesFolder) {
        for (const std::string& inner : files_.list(path)) remove_quietly(files_, fmt::format("{}/{}", path, inner));
      }
      remove_quietly(files_, path);
    }
  } catch (const std::exception& error) {
    log_debug(fmt::format("'{}' keeps files of a failed attempt: {}", path_, error.what()));
  }
}

}  // namespace sluice
