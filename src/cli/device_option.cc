// SPDX-License-Identifier: Apache-2.0
#include "cli/device_option.h"

#include <fmt/format.h>

#include "base/error.h"

namespace sluice {

DeviceWish parse_device_option(const std::string& text) {
  if (text == "auto") return DeviceWish::kAuto;
  if (text == "cpu") return DeviceWish::kCpu;
  if (text == "cuda") return DeviceWish::kCuda;
  throw InvalidInput(fmt::format("--device is '{}'; it can be auto, cpu or cuda", text));
}

}  // namespace sluice
