// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <fmt/core.h>

namespace sluice {

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    reset();
    memory_ = std::exchange(other.memory_, {});
    give_back_ = std::exchange(other.give_back_, nullptr);
  }
  return *this;
}

void Buffer::reset() {
  if (give_back_) give_back_(memory_);
  give_back_ = nullptr;
  memory_ = {};
}

DirectStorageFinding Device::open_direct_storage(DirectWay) {
  return {nullptr, fmt::format("{} computes in host memory", name())};
}

}  // namespace sluice
