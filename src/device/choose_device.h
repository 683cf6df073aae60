// SPDX-License-Identifier: Apache-2.0
// Which device a run computes on: what is asked for against what is there. Opens the plug-in where a card may be meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/cuda_plugin.h"
#include "device/device.h"

namespace sluice {

enum class DeviceWish : std::uint8_t { kAuto, kCpu, kCuda };  // auto: a card if there is one

struct DeviceChoice {
  std::shared_ptr<CudaPlugin> cuda;  // shared with the devices made of it, which it outlives; null: the CPU
  CudaCard card;                     // the first that this build has kernels for
  int card_idx = 0;

  DeviceKind kind() const { return cuda ? DeviceKind::kCuda : DeviceKind::kCpu; }
};

// Throws InvalidInput where a card is asked for and there is none, saying why.
DeviceChoice choose_device(DeviceWish wish);

struct DeviceNeeds {
  std::uint64_t arena_bytes = 0;    // in all
  std::uint64_t scratch_bytes = 0;  // of those, for a card's kernels
  std::size_t num_threads = 1;      // of the CPU's kernels
};
// Throws OutOfBudget where there is not so much memory.
std::unique_ptr<Device> make_device(const DeviceChoice& choice, const DeviceNeeds& needs);

}  // namespace sluice
