// SPDX-License-Identifier: Apache-2.0
#include "cli/machine_cache.h"

#include <cstdlib>

namespace sluice {

std::string machine_cache_path() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/sluice/machine.json";
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return std::string(home) + "/.cache/sluice/machine.json";
}

}  // namespace sluice
