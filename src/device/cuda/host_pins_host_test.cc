// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <gtest/gtest.h>

#include "base/units.h"
#include "device/cuda/host_pins.h"
#include "device/cuda_plugin.h"

namespace sluice::cuda {
namespace {

TEST(HostPins, PinEverythingWhereNothingLimitsThem) {
  HostPins pins(kPinsEverything);
  EXPECT_FALSE(pins.is_limited());
  EXPECT_TRUE(pins.take(1000 * kGiB));
  EXPECT_TRUE(pins.take(1000 * kGiB));
}

TEST(HostPins, LeaveLargeBuffersBeyondTheLimitUnpinned) {
  HostPins pins(10 * kMiB);
  EXPECT_TRUE(pins.is_limited());
  EXPECT_TRUE(pins.take(6 * kMiB));
  EXPECT_FALSE(pins.take(6 * kMiB));
  EXPECT_TRUE(pins.take(4 * kMiB));
  EXPECT_TRUE(pins.take(64 * kKiB)) << "kernels write into small buffers";
  EXPECT_FALSE(pins.take(2 * kMiB));
  pins.give_back(6 * kMiB);
  EXPECT_TRUE(pins.take(5 * kMiB));
}

TEST(HostPins, KnowWhichAddressesAreStaged) {
  HostPins pins(0);
  const std::vector<std::byte> memory(300);
  const std::span<const std::byte> buffer = std::span(memory).subspan(100, 100);
  EXPECT_FALSE(pins.is_staged(memory.data() + 150));
  pins.add_staged(buffer);
  EXPECT_FALSE(pins.is_staged(memory.data() + 99));
  EXPECT_TRUE(pins.is_staged(memory.data() + 100));
  EXPECT_TRUE(pins.is_staged(memory.data() + 199));
  EXPECT_FALSE(pins.is_staged(memory.data() + 200));
  pins.remove_staged(buffer);
  EXPECT_FALSE(pins.is_staged(memory.data() + 150));
}

}  // namespace
}  // namespace sluice::cuda
