// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <memory>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace sluice {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> kInstance = [] {
    auto made = spdlog::stderr_color_mt("sluice");
    made->set_pattern("%^%l%$: %v");
    return made;
  }();
  return *kInstance;
}

}  // namespace

void set_log_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      logger().set_level(spdlog::level::debug);
      break;
    case LogLevel::kInfo:
      logger().set_level(spdlog::level::info);
      break;
    case LogLevel::kWarning:
      logger().set_level(spdlog::level::warn);
      break;
  }
}

void log_debug(std::string_view line) { logger().debug(line); }
void log_warning(std::string_view line) { logger().warn(line); }

}  // namespace sluice
