// SPDX-License-Identifier: Apache-2.0
#include "device/link_speed.h"

#include <atomic>

#include <gtest/gtest.h>

#include "device/cpu/cpu_device.h"

namespace sluice {
namespace {

// A second passes between any two looks at it.
class TickingClock : public Clock {
 public:
  std::int64_t now_ns() const override { return num_looks_++ * 1'000'000'000; }

 private:
  mutable std::atomic<std::int64_t> num_looks_ = 0;
};

TEST(LinkSpeed, IsTheBytesCopiedOverTheTimeAndLeavesTheDeviceAsItWas) {
  CpuDevice device(8 * kMiB);
  const LinkSpeed speed = measure_link(device, TickingClock(), 1'000'000);
  EXPECT_DOUBLE_EQ(speed.to_device_gb_per_s, 0.004);  // four copies in a second
  EXPECT_DOUBLE_EQ(speed.from_device_gb_per_s, 0.004);
  EXPECT_DOUBLE_EQ(speed.both_gb_per_s, 0.008);
  EXPECT_EQ(device.free_bytes(), device.arena_bytes());
}

}  // namespace
}  // namespace sluice
