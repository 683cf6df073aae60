// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <cstdio>
#include <mutex>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

// The only mutable global: log lines come from every thread and layer.
struct LogState {
  std::mutex mutex;
  LogLevel level = LogLevel::kInfo;
  LogRedirect::Sink sink;
};

LogState& log_state() {
  static LogState state;
  return state;
}

void write_log_line(LogLevel level, std::string_view line) {
  LogState& state = log_state();
  const std::scoped_lock lock(state.mutex);
  if (level < state.level) return;
  if (state.sink) {
    state.sink(level, line);
    return;
  }
  // A write error is ignored: there is nowhere else to report it.
  const std::string whole = labelled(level, line) + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stderr);
}

}  // namespace

void set_log_level(LogLevel level) {
  const std::scoped_lock lock(log_state().mutex);
  log_state().level = level;
}

LogLevel log_level() {
  const std::scoped_lock lock(log_state().mutex);
  return log_state().level;
}

void log_debug(std::string_view line) { write_log_line(LogLevel::kDebug, line); }
void log_warning(std::string_view line) { write_log_line(LogLevel::kWarning, line); }

std::string labelled(LogLevel level, std::string_view line) {
  switch (level) {
    case LogLevel::kDebug:
      return fmt::format("debug: {}", line);
    case LogLevel::kInfo:
      return fmt::format("info: {}", line);
    case LogLevel::kWarning:
      return fmt::format("warning: {}", line);
  }
  return std::string(line);
}

LogRedirect::LogRedirect(Sink sink) {
  const std::scoped_lock lock(log_state().mutex);
  before_ = std::exchange(log_state().sink, std::move(sink));
}

LogRedirect::~LogRedirect() {
  const std::scoped_lock lock(log_state().mutex);
  log_state().sink = std::move(before_);
}

}  // namespace sluice
