// SPDX-License-Identifier: Apache-2.0
// --device, as every verb that has it understands it.
#pragma once

#include <string>

#include "device/choose_device.h"

namespace sluice {

// Throws InvalidInput where it is none of auto, cpu and cuda.
DeviceWish parse_device_option(const std::string& text);

}  // namespace sluice
