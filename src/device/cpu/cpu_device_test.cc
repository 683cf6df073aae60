// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/cpu_device.h"

#include <algorithm>
#include <future>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

TEST(CpuDevice, ArenaIsExactlyItsBudget) {
  CpuDevice device(4 * kMiB);
  const Buffer first = device.allocate(3 * kMiB, "first");
  EXPECT_EQ(device.free_bytes(), kMiB);
  EXPECT_THROW(
      {
        try {
          device.allocate(kMiB + 1, "layer 7");
        } catch (const OutOfBudget& error) {
          EXPECT_NE(std::string(error.what()).find("layer 7"), std::string::npos);
          throw;
        }
      },
      OutOfBudget);
  const Buffer second = device.allocate(kMiB, "second");
  EXPECT_EQ(device.free_bytes(), 0U);
}

TEST(CpuDevice, BuffersGiveTheirMemoryBack) {
  CpuDevice device(kMiB);
  for (int i = 0; i < 100; ++i) {
    Buffer buffer = device.allocate(kMiB, "all");
    Buffer moved = std::move(buffer);
    EXPECT_EQ(moved.size_bytes(), kMiB);
  }
  EXPECT_EQ(device.free_bytes(), kMiB);
}

TEST(CpuStream, RunsInOrderAndEventsMarkThePlace) {
  CpuDevice device(kMiB);
  const auto stream = device.make_stream("test");
  std::promise<void> gate;
  std::vector<int> order;
  stream->run([&] { gate.get_future().wait(); });
  stream->run([&] { order.push_back(1); });
  const Event event = stream->record();
  EXPECT_FALSE(event.passed());
  gate.set_value();
  event.wait();
  EXPECT_EQ(order, std::vector<int>{1});
}

TEST(CpuStream, CopiesBetweenPinnedAndDeviceMemory) {
  CpuDevice device(kMiB);
  const auto stream = device.make_stream("copy");
  const Buffer host = device.allocate_pinned(1000);
  const Buffer on_device = device.allocate(1000, "test");
  std::fill(host.bytes().begin(), host.bytes().end(), std::byte{7});
  stream->copy(on_device.bytes(), host.bytes().first(1000));
  stream->synchronize();
  EXPECT_TRUE(std::all_of(on_device.bytes().begin(), on_device.bytes().end(),
                          [](std::byte value) { return value == std::byte{7}; }));
}

TEST(CpuStream, OneStreamWaitsForAnother) {
  CpuDevice device(kMiB);
  const auto first = device.make_stream("first");
  const auto second = device.make_stream("second");
  std::promise<void> gate;
  int value = 0;
  first->run([&] {
    gate.get_future().wait();
    value = 1;
  });
  second->wait(first->record());
  int seen = -1;
  second->run([&] { seen = value; });
  gate.set_value();
  second->synchronize();
  EXPECT_EQ(seen, 1);
}

TEST(CpuStream, AFailureRidesOnLaterEventsAndSkipsLaterWork) {
  CpuDevice device(kMiB);
  const auto stream = device.make_stream("fails");
  const Event before = stream->record();
  bool ran = false;
  stream->run([] { throw DeviceError("the kernel fell over"); });
  stream->run([&] { ran = true; });
  EXPECT_NO_THROW(before.wait());
  EXPECT_THROW(stream->synchronize(), DeviceError);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace sluice
