// SPDX-License-Identifier: Apache-2.0
#include "tier/device_tier.h"

#include <algorithm>
#include <atomic>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "device/cpu/cpu_device.h"
#include "tier/fake_store.h"
#include "tier/prefetcher.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kSliceBytes = 100000;     // 13 chunks, the last of them short
constexpr std::uint64_t kRoomBytes = 100 * kKiB;  // what one takes on the device

// Every look at it is later than the one before.
class TickingClock : public Clock {
 public:
  std::int64_t now_ns() const override { return ++now_ns_; }

 private:
  mutable std::atomic<std::int64_t> now_ns_{0};
};

// Room for three slices on the device, four slots of two chunks in the ring.
class DeviceTierTest : public testing::Test {
 protected:
  DeviceTierTest()
      : device_budget_("device", 3 * kRoomBytes),
        host_("host", kMiB),
        device_(3 * kRoomBytes),
        store_(SliceStore::create(fake_.home(), FakeStore::shape(2))),
        ring_(device_, fake_.engine, host_, {16 * kKiB, 4}),
        trace_(clock_),
        compute_(device_.make_stream("compute")) {
    for (std::uint64_t i = 0; i < 6; ++i) put(*store_, key(i), {i, kSliceBytes});
    store_->commit("filled");
    tier_.emplace(*store_, ring_, device_, device_budget_, &trace_);
  }

  static std::string key(std::uint64_t idx) { return "slice." + std::to_string(idx); }

  static bool has(const Lease& lease, std::uint64_t seed) {
    const TestSlice slice{seed, kSliceBytes};
    const std::vector<std::byte> expected = slice.bytes();
    return std::equal(expected.begin(), expected.end(), lease.bytes().begin(), lease.bytes().end());
  }

  void overwrite(std::uint64_t idx, std::uint64_t seed) {
    Lease lease = tier_->acquire(key(idx));
    lease.wait();
    Random(seed).fill(lease.bytes());
    lease.mark_dirty();
  }

  FakeStore fake_{2};
  TickingClock clock_;
  Budget device_budget_;
  Budget host_;
  CpuDevice device_;
  std::unique_ptr<SliceStore> store_;
  StagingRing ring_;
  LaneTrace trace_;
  std::unique_ptr<Stream> compute_;
  std::optional<DeviceTier> tier_;
};

TEST_F(DeviceTierTest, ALeaseBringsTheSliceWhole) {
  for (std::uint64_t i = 0; i < 6; ++i) {
    const Lease lease = tier_->acquire(key(i));
    lease.wait();
    EXPECT_TRUE(has(lease, i)) << i;
  }
  EXPECT_LE(device_budget_.peak_bytes(), 3 * kRoomBytes);
}

TEST_F(DeviceTierTest, AResidentSliceIsNotLoadedAgain) {
  tier_->acquire(key(0)).wait();
  const std::uint64_t operations = fake_.disk.num_operations();
  const Lease again = tier_->acquire(key(0));
  again.wait();
  EXPECT_TRUE(has(again, 0));
  EXPECT_EQ(fake_.disk.num_operations(), operations);
}

TEST_F(DeviceTierTest, ReleasingTheLastLeaseMakesTheSliceEvictable) {
  std::optional<Lease> a = tier_->acquire(key(0));
  std::optional<Lease> b = tier_->acquire(key(1));
  std::optional<Lease> c = tier_->acquire(key(2));
  std::optional<Lease> c_again = tier_->acquire(key(2));
  for (const Lease* lease : {&*a, &*b, &*c}) lease->wait();
  EXPECT_THROW(
      {
        try {
          const Lease refused = tier_->acquire(key(3));
        } catch (const OutOfBudget& error) {
          EXPECT_THAT(error.what(), HasSubstr("slice.3"));
          throw;
        }
      },
      OutOfBudget);
  c.reset();
  EXPECT_THROW(static_cast<void>(tier_->acquire(key(3))), OutOfBudget) << "another lease holds it";
  c_again.reset();
  const Lease d = tier_->acquire(key(3));
  d.wait();
  EXPECT_TRUE(has(d, 3));
  EXPECT_FALSE(tier_->resident(key(2)));
}

TEST_F(DeviceTierTest, ASliceIsNotEvictedBeforeTheStreamThatUsedItHasPassed) {
  std::promise<void> gate;
  {
    Lease lease = tier_->acquire(key(0));
    lease.wait();
    compute_->run([&] { gate.get_future().wait(); });
    lease.use_on(*compute_);
  }
  const Lease b = tier_->acquire(key(1));
  const Lease c = tier_->acquire(key(2));
  EXPECT_EQ(tier_->try_acquire(key(3)), std::nullopt) << "the only free one is still in use by the stream";
  EXPECT_TRUE(tier_->resident(key(0)));
  gate.set_value();
  const Lease d = tier_->acquire(key(3));
  EXPECT_FALSE(tier_->resident(key(0)));
}

TEST_F(DeviceTierTest, CleanSlicesAreEvictedBeforeDirtyOnesAndDirtyOnesAreSaved) {
  overwrite(0, 100);
  tier_->acquire(key(1)).wait();
  tier_->acquire(key(2)).wait();
  tier_->acquire(key(3)).wait();
  EXPECT_TRUE(tier_->resident(key(0))) << "dirty, though least recently used";
  EXPECT_FALSE(tier_->resident(key(1)));
  overwrite(1, 101);
  overwrite(2, 102);
  tier_->acquire(key(4)).wait();
  EXPECT_FALSE(tier_->resident(key(0)));
  const Lease back = tier_->acquire(key(0));
  back.wait();
  EXPECT_TRUE(has(back, 100)) << "what was saved is read back before any commit";
}

TEST_F(DeviceTierTest, SavedSlicesSurviveOnceCommitted) {
  for (std::uint64_t i = 0; i < 6; ++i) overwrite(i, 200 + i);
  {
    const Lease made = tier_->create("made", kSliceBytes);
    Random(300).fill(made.bytes());
  }
  tier_->save_dirty();
  EXPECT_EQ(store_->committed().size(), 6U) << "nothing is current before the commit";
  store_->commit("second");
  tier_.reset();
  store_.reset();
  const auto reopened = SliceStore::open(fake_.home());
  for (std::uint64_t i = 0; i < 6; ++i) EXPECT_TRUE(holds(*reopened, key(i), {200 + i, kSliceBytes})) << i;
  EXPECT_TRUE(holds(*reopened, "made", {300, kSliceBytes}));
}

TEST_F(DeviceTierTest, DamageIsRethrownToWhoeverWaitsAndOthersAreServed) {
  const SliceRef version = store_->find(key(1));
  const Extent extent = version->record().extents[0];
  fake_.disk.flip_bit(fake_.directories[extent.drive_idx] + "/slices.dat", (extent.offset + 9) * 8);
  {
    const Lease damaged = tier_->acquire(key(1));
    EXPECT_THROW(damaged.wait(), FormatError);
  }
  fake_.disk.flip_bit(fake_.directories[extent.drive_idx] + "/slices.dat", (extent.offset + 9) * 8);
  for (const std::uint64_t i : {0, 2, 3, 4, 1}) {
    const Lease lease = tier_->acquire(key(i));
    lease.wait();
    EXPECT_TRUE(has(lease, i)) << "a slice that did not arrive is asked for again: " << i;
  }
}

TEST_F(DeviceTierTest, ASliceWhoseSaveFailedIsNeverServedOrCommittedAsOld) {
  overwrite(0, 100);
  fake_.disk.set_hook(
      [](const FakeOperation& operation) { return operation.op == FakeOp::kWrite ? Fault::kEio : Fault::kNone; });
  EXPECT_THROW(tier_->save_dirty(), IoError);
  fake_.disk.set_hook(nullptr);
  tier_->save_dirty();  // it is still dirty, and the drive works again
  store_->commit("mended");
  EXPECT_TRUE(holds(*store_, key(0), {100, kSliceBytes}));

  overwrite(1, 101);
  fake_.disk.set_hook(
      [](const FakeOperation& operation) { return operation.op == FakeOp::kWrite ? Fault::kEio : Fault::kNone; });
  for (const std::uint64_t i : {2, 3, 4}) overwrite(i, i);  // pushes slice 1 out; its memory is gone
  fake_.disk.set_hook(nullptr);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(static_cast<void>(tier_->acquire(key(1))), IoError) << "every time";
  EXPECT_THROW(tier_->save_dirty(), IoError);
}

TEST_F(DeviceTierTest, AStepThatFailedOnAStreamIsNotSaved) {
  {
    Lease lease = tier_->acquire(key(0));
    lease.wait();
    compute_->run([] { throw DeviceError("the kernel fell over"); });
    lease.use_on(*compute_);
    lease.mark_dirty();
  }
  EXPECT_THROW(tier_->save_dirty(), DeviceError);
  overwrite(1, 101);  // others are served as before
  EXPECT_THROW(tier_->save_dirty(), DeviceError);
  EXPECT_TRUE(holds(*store_, key(1), {101, kSliceBytes}));
}

TEST_F(DeviceTierTest, AFailedUseIsRememberedAcrossLaterOnes) {
  const auto other = device_.make_stream("other");
  {
    Lease lease = tier_->acquire(key(0));
    lease.wait();
    compute_->run([] { throw DeviceError("the kernel fell over"); });
    lease.use_on(*compute_);
    lease.mark_dirty();
  }
  EXPECT_THROW(compute_->synchronize(), DeviceError);
  {
    Lease lease = tier_->acquire(key(0));
    lease.use_on(*other);
  }
  other->synchronize();
  EXPECT_THROW(tier_->save_dirty(), DeviceError);
}

// Holds the drawing above SliceSaver to its word.
TEST_F(DeviceTierTest, WindowsAreWrittenInOrderEachAfterItsCopy) {
  overwrite(0, 100);
  overwrite(1, 101);
  const std::size_t before = trace_.spans().size();
  tier_->save_dirty();
  const std::vector<LaneSpan> spans = trace_.spans();
  std::map<Lane, std::vector<std::pair<std::string, std::uint64_t>>> order;
  std::map<std::pair<std::string, std::uint64_t>, std::map<Lane, std::size_t>> ended;
  for (std::size_t i = before; i < spans.size(); ++i) {
    order[spans[i].lane].emplace_back(spans[i].slice, spans[i].offset);
    ended[{spans[i].slice, spans[i].offset}][spans[i].lane] = i;
  }
  EXPECT_EQ(order[Lane::kDeviceToHost].size(), 14U);
  EXPECT_EQ(order[Lane::kHostToNvme], order[Lane::kDeviceToHost]);
  for (const auto& [window, lanes] : ended) EXPECT_LT(lanes.at(Lane::kDeviceToHost), lanes.at(Lane::kHostToNvme));
}

TEST_F(DeviceTierTest, TwoStreamsThatUseOneSliceBothHaveToPass) {
  const auto other = device_.make_stream("other");
  std::promise<void> gate;
  {
    Lease first = tier_->acquire(key(0));
    Lease second = tier_->acquire(key(0));
    first.wait();
    compute_->run([&] { gate.get_future().wait(); });
    first.use_on(*compute_);
    second.use_on(*other);
    { const Lease gone = std::move(first); }
  }
  other->synchronize();
  const Lease b = tier_->acquire(key(1));
  const Lease c = tier_->acquire(key(2));
  EXPECT_EQ(tier_->try_acquire(key(3)), std::nullopt);
  gate.set_value();
  compute_->synchronize();
}

TEST_F(DeviceTierTest, AFullDriveShowsWhenADirtySliceMustGo) {
  overwrite(0, 100);
  overwrite(1, 101);
  overwrite(2, 102);
  fake_.disk.set_free_bytes(0);
  std::optional<std::string> sentence;
  for (std::uint64_t i = 3; i < 6 && !sentence; ++i) {
    try {
      tier_->acquire(key(i)).wait();
      overwrite(i, 100 + i);
    } catch (const IoError& error) {
      sentence = error.what();
    }
  }
  ASSERT_TRUE(sentence.has_value());
  EXPECT_THAT(*sentence, HasSubstr("is full"));
}

TEST_F(DeviceTierTest, ThePrefetcherGivesEverySliceInOrder) {
  std::vector<std::string> order;
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < 6; ++i) order.push_back(key(i));
  }
  Prefetcher prefetcher(*tier_, order);
  for (std::size_t i = 0; !prefetcher.done(); ++i) {
    Lease lease = prefetcher.next();
    EXPECT_EQ(lease.key(), order[i]);
    lease.wait_on(*compute_);
    compute_->run([bytes = lease.bytes(), i] {
      const TestSlice slice{i % 6, kSliceBytes};
      const std::vector<std::byte> expected = slice.bytes();
      if (!std::equal(expected.begin(), expected.end(), bytes.begin(), bytes.end())) throw FormatError("other bytes");
    });
    lease.use_on(*compute_);
  }
  EXPECT_NO_THROW(compute_->synchronize());
}

// Holds the drawing above SliceLoader to its word.
TEST_F(DeviceTierTest, ReadsRunAheadOfCopiesByTheSlotsAndEachLaneKeepsItsOrder) {
  std::atomic<int> num_reads{0};
  std::promise<void> four_reads;
  fake_.disk.set_hook([&](const FakeOperation& operation) {
    if (operation.op != FakeOp::kRead) return Fault::kNone;
    // A window of two chunks is two reads, or one where the chunks lie together; the ring has four slots.
    if (++num_reads == 4) four_reads.set_value();
    return Fault::kDelay;
  });
  std::optional<Lease> a = tier_->acquire(key(0));
  std::optional<Lease> b = tier_->acquire(key(1));
  four_reads.get_future().wait();
  EXPECT_TRUE(trace_.spans().empty()) << "nothing was copied while the first reads were still out";
  fake_.disk.set_hook(nullptr);
  std::promise<void> arrived;
  std::future<void> arrival = arrived.get_future();
  std::thread waiter([&] {
    a->wait();
    b->wait();
    arrived.set_value();
  });
  while (arrival.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) fake_.engine.complete_delayed();
  waiter.join();
  EXPECT_TRUE(has(*a, 0));
  EXPECT_TRUE(has(*b, 1));

  std::map<Lane, std::vector<std::pair<std::string, std::uint64_t>>> order;
  std::map<std::pair<std::string, std::uint64_t>, std::map<Lane, std::size_t>> ended;
  std::size_t idx = 0;
  std::vector<LaneSpan> spans = trace_.spans();
  for (const LaneSpan& span : spans) ended[{span.slice, span.offset}][span.lane] = idx++;
  // Drives end transfers in any order; a lane begins them in its own.
  std::sort(spans.begin(), spans.end(), [](const auto& one, const auto& two) { return one.begin_ns < two.begin_ns; });
  for (const LaneSpan& span : spans) {
    order[span.lane].emplace_back(span.slice, span.offset);
  }
  std::vector<std::pair<std::string, std::uint64_t>> expected;
  for (const std::uint64_t slice_idx : {0, 1}) {
    for (std::uint64_t offset = 0; offset < kSliceBytes; offset += 16 * kKiB)
      expected.emplace_back(key(slice_idx), offset);
  }
  EXPECT_EQ(order[Lane::kNvmeToHost], expected);
  EXPECT_EQ(order[Lane::kHostToDevice], expected);
  for (const auto& [window, lanes] : ended) {
    EXPECT_LT(lanes.at(Lane::kNvmeToHost), lanes.at(Lane::kHostToDevice)) << "a window is copied after it was read";
  }
}

TEST(StagingShape, KeepsToTheBudgetAndRefusesOneThatHoldsNoTwoChunks) {
  for (const std::uint64_t budget : {2 * kMiB, 5 * kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB, 4 * kGiB}) {
    const StagingRing::Shape shape = staging_shape(budget, kMiB);
    EXPECT_LE(shape.slot_bytes * shape.num_slots, budget);
    EXPECT_GE(shape.num_slots, 2U);
    EXPECT_EQ(shape.slot_bytes % kMiB, 0U);
  }
  EXPECT_THROW(staging_shape(kMiB, kMiB), OutOfBudget);
}

}  // namespace
}  // namespace sluice
