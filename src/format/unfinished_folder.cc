// SPDX-License-Identifier: Apache-2.0
#include "format/unfinished_folder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"

namespace sluice {

UnfinishedFolder::UnfinishedFolder(FileSystem& files, std::string path)
    : files_(files), path_(std::move(path)), before_(files.list(path_)) {}

UnfinishedFolder::~UnfinishedFolder() {
  if (is_finished_) return;
  try {
    for (const std::string& name : files_.list(path_)) {
      if (std::find(before_.begin(), before_.end(), name) == before_.end()) files_.remove(path_ + "/" + name);
    }
  } catch (const Error& error) {
    log_debug(fmt::format("'{}' keeps files of a failed attempt: {}", path_, error.what()));
  }
}

}  // namespace sluice
