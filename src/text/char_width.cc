// SPDX-License-Identifier: Apache-2.0
#include "text/char_width.h"

#include <utf8proc.h>

#include <algorithm>

namespace sluice {

std::size_t char_width(char32_t code_point) {
  return static_cast<std::size_t>(std::max(utf8proc_charwidth(static_cast<utf8proc_int32_t>(code_point)), 0));
}

}  // namespace sluice
