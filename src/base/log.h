// SPDX-License-Identifier: Apache-2.0
// Log lines for the person at the terminal, on standard error. Callers format; nothing heavy is included here.
#pragma once

#include <string_view>

namespace sluice {

enum class LogLevel { kDebug, kInfo, kWarning };

void set_log_level(LogLevel level);
void log_debug(std::string_view line);
void log_warning(std::string_view line);

}  // namespace sluice
