// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <system_error>

namespace sluice {

std::string without_zero_bytes(const std::string& message) {
  std::string text;
  for (const char c : message) {
    if (c == '\0') {
      text += "\\0";
    } else {
      text += c;
    }
  }
  return text;
}

Error::Error(const std::string& message) : std::runtime_error(without_zero_bytes(message)) {}

std::string errno_text(int errno_value) { return std::generic_category().message(errno_value); }

}  // namespace sluice
