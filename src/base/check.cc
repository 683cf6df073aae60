// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sluice {

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "sluice: bug at %s:%d: %s does not hold: %.*s\n", file, line, condition,
               static_cast<int>(message.size()), message.data());
  std::abort();
}

}  // namespace sluice
