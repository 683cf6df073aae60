// SPDX-License-Identifier: Apache-2.0
// How fast a device's memory is reached from pinned host memory: each way alone, and both at once.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/units.h"
#include "device/device.h"

namespace sluice {

struct LinkSpeed {
  double to_device_gb_per_s = 0;
  double from_device_gb_per_s = 0;
  double both_gb_per_s = 0;  // the sum of both ways while both are busy
};

// Takes twice so many bytes of the device, and of the host, for a few copies.
inline constexpr std::uint64_t kLinkProbeBytes = 128 * kMiB;
LinkSpeed measure_link(Device& device, const Clock& clock, std::uint64_t probe_bytes = kLinkProbeBytes);

}  // namespace sluice
