// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <system_error>

namespace sluice {

std::string errno_text(int errno_value) { return std::generic_category().message(errno_value); }

}  // namespace sluice
