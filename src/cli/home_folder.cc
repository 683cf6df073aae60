// SPDX-License-Identifier: Apache-2.0
#include "cli/home_folder.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace sluice {

std::optional<std::string> home_folder(const std::string& user) {
  if (user.empty()) {
    const char* const home = std::getenv("HOME");
    if (home != nullptr && *home != '\0') return std::string(home);
  }
  // Not thread-safe: called before other threads start.
  const struct passwd* const entry =
      user.empty() ? ::getpwuid(::getuid()) : ::getpwnam(user.c_str());  // NOLINT(concurrency-mt-unsafe)
  if (entry == nullptr || entry->pw_dir == nullptr || *entry->pw_dir == '\0') return std::nullopt;
  return std::string(entry->pw_dir);
}

}  // namespace sluice
