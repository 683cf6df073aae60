// SPDX-License-Identifier: Apache-2.0
#include "tier/measured_shape.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "tier/fake_store.h"

namespace sluice {
namespace {

// Drive 1 takes four times as long for every transfer.
StoreShape measure(FakeStore& fake, std::int64_t slow_ns) {
  ManualClock clock;
  fake.disk.set_hook([&](const FakeOperation& operation) {
    clock.advance_ns(operation.path.starts_with("/drive1/") ? slow_ns : 1000);
    return Fault::kNone;
  });
  StoreShape shape = measured_shape(fake.home(), clock, 16 * kMiB);
  fake.disk.set_hook(nullptr);
  return shape;
}

TEST(MeasuredShape, ASlowerDriveHoldsAsMuchLessAndDrivesAlikeHoldTheSame) {
  FakeStore fake(2);
  EXPECT_EQ(measure(fake, 1000).weights, (std::vector<std::uint32_t>{1, 1}));
  const StoreShape shape = measure(fake, 4000);
  EXPECT_EQ(shape.weights, (std::vector<std::uint32_t>{16, 4}));
  EXPECT_TRUE(fake.disk.list("/drive0").empty()) << "nothing is left of the measuring";

  auto store = SliceStore::create(fake.home(), shape);
  put(*store, "a", {1, 20 * kMiB});
  store->commit("1");
  std::vector<std::uint64_t> held(2, 0);
  for (const Extent& extent : store->find("a")->record().extents) held[extent.drive_idx] += extent.size_bytes;
  EXPECT_EQ(held, (std::vector<std::uint64_t>{16 * kMiB, 4 * kMiB}));
}

TEST(MeasuredShape, OneDriveIsNotMeasured) {
  FakeStore fake;
  EXPECT_TRUE(measured_shape(fake.home(), ManualClock(), 16 * kMiB).weights.empty());
  EXPECT_EQ(fake.disk.num_operations(), 0U);
}

}  // namespace
}  // namespace sluice
