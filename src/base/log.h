// SPDX-License-Identifier: Apache-2.0
// Log lines for the user. They go to standard error, or to the current LogRedirect. Callers format the text, so that
// this header stays light. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sluice {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning };

void set_log_level(LogLevel level);
LogLevel log_level();
void log_debug(std::string_view line);
void log_warning(std::string_view line);

// "warning: the trace ends here"
std::string labelled(LogLevel level, std::string_view line);

// While this object lives, log lines go to `sink` instead, one at a time, from any thread. The sink must not log.
// Redirects nest: the latest receives the lines, and its destructor restores the one before it.
class LogRedirect {
 public:
  using Sink = std::function<void(LogLevel level, std::string_view line)>;
  explicit LogRedirect(Sink sink);
  ~LogRedirect();
  LogRedirect(const LogRedirect&) = delete;
  LogRedirect& operator=(const LogRedirect&) = delete;

 private:
  Sink before_;
};

}  // namespace sluice
