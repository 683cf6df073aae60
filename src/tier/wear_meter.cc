// SPDX-License-Identifier: Apache-2.0
#include "tier/wear_meter.h"

namespace sluice {

WearMeter::WearMeter(const std::vector<std::uint64_t>& drive_bytes) {
  for (const std::uint64_t bytes : drive_bytes) drives_.emplace_back(bytes);
}

std::vector<std::uint64_t> WearMeter::drive_bytes() const {
  std::vector<std::uint64_t> bytes;
  for (const auto& drive : drives_) bytes.push_back(drive.load());
  return bytes;
}

}  // namespace sluice
