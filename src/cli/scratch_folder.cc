// SPDX-License-Identifier: Apache-2.0
#include "cli/scratch_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/core.h>

#include "base/error.h"

namespace sluice {

ScratchFolder::ScratchFolder(const std::string& purpose) {
  std::error_code failure;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(failure);
  if (failure) {
    throw IoError(failure.value(),
                  fmt::format("there is no directory for temporary files ({}); set TMPDIR to one", failure.message()));
  }
  path_ = (parent / fmt::format("sluice-{}-XXXXXX", purpose)).string();
  if (::mkdtemp(path_.data()) == nullptr) {
    throw IoError(errno, fmt::format("cannot make a directory in '{}': {}; set TMPDIR to one that can be written",
                                     parent.string(), errno_text(errno)));
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace sluice
