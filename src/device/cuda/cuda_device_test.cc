// SPDX-License-Identifier: Apache-2.0
// The contract of device/device.h on a card, through the plug-in as the program sees it.
#include <algorithm>
#include <future>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "device/cpu/cpu_device.h"
#include "device/cuda_plugin.h"
#include "device/device.h"

namespace sluice {
namespace {

// Runs on any machine: with a card, without, and without a driver.
TEST(CudaPlugin, SaysWhatItFoundOrWhyNot) {
  const CudaPluginFinding found = open_cuda_plugin();
  ASSERT_TRUE(found.plugin) << found.why_not;
  const CudaFindings findings = found.plugin->find();
  if (findings.why_not.empty()) {
    EXPECT_FALSE(findings.cards.empty());
    EXPECT_FALSE(findings.driver.empty());
  }
  EXPECT_THROW(found.plugin->make_device({.card_idx = 99, .arena_bytes = kMiB}), DeviceError);
}

TEST(CudaPlugin, IsLookedForInTheFolderGiven) {
  const CudaPluginFinding found = open_cuda_plugin("/nonexistent");
  EXPECT_FALSE(found.plugin);
  EXPECT_NE(found.why_not.find("/nonexistent"), std::string::npos);
}

class CudaDeviceTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kScratch = 4 * kMiB;

  void SetUp() override {
    CudaPluginFinding found = open_cuda_plugin();
    if (!found.plugin) GTEST_SKIP() << found.why_not;
    plugin_ = std::move(found.plugin);
    const std::string why_not = plugin_->find().why_not;
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    card_ = plugin_->make_device({.arena_bytes = 64 * kMiB, .scratch_bytes = kScratch});
  }

  Device& card() { return *card_; }
  // Replaces the fixture's card by one with these options.
  void use_card(const CudaDeviceOptions& options) {
    card_.reset();
    card_ = plugin_->make_device(options);
  }

 private:
  std::unique_ptr<CudaPlugin> plugin_;
  std::unique_ptr<Device> card_;
};

TEST_F(CudaDeviceTest, ArenaIsExactlyItsBudget) {
  EXPECT_EQ(card().arena_bytes(), 64 * kMiB);
  EXPECT_EQ(card().free_bytes(), 64 * kMiB - kScratch);
  {
    const Buffer all = card().allocate(card().free_bytes(), "all");
    EXPECT_THROW(card().allocate(1, "layer 7"), OutOfBudget);
  }
  EXPECT_EQ(card().free_bytes(), 64 * kMiB - kScratch);
  EXPECT_EQ(card().peak_bytes(), 64 * kMiB);
}

TEST_F(CudaDeviceTest, CopiesThereAndBack) {
  const auto stream = card().make_stream("copies");
  const Buffer host = card().allocate_pinned(3 * kMiB + 5);
  const Buffer back = card().allocate_pinned(3 * kMiB + 5);
  const Buffer on_card = card().allocate(3 * kMiB + 5, "test");
  for (std::size_t i = 0; i < host.bytes().size(); ++i) host.bytes()[i] = static_cast<std::byte>(i * 31 >> 3);
  const std::size_t size = on_card.bytes().size();
  stream->copy(on_card.bytes(), host.bytes().first(size));
  stream->copy(back.bytes().first(size), on_card.bytes());
  stream->synchronize();
  EXPECT_TRUE(
      std::equal(host.bytes().begin(), host.bytes().begin() + static_cast<std::ptrdiff_t>(size), back.bytes().begin()));
  stream->clear(on_card.bytes().first(size - 1));
  std::vector<std::byte> pageable(size);
  stream->copy(pageable, on_card.bytes());
  stream->synchronize();
  EXPECT_TRUE(std::all_of(pageable.begin(), pageable.end() - 1, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(pageable.back(), host.bytes()[size - 1]);
}

// As under WSL2, where the driver pins little host memory.
TEST_F(CudaDeviceTest, CopiesMemoryThatCannotBePinnedThroughSlots) {
  use_card({.arena_bytes = 64 * kMiB, .scratch_bytes = kScratch, .pinnable_bytes = 2 * kMiB});
  const auto stream = card().make_stream("copies");
  const auto other = card().make_stream("other");
  constexpr std::size_t kSize = 9 * kMiB + 5;  // more than two slots
  const Buffer host = card().allocate_pinned(kSize);
  const Buffer back = card().allocate_pinned(kSize);
  const Buffer small = card().allocate_pinned(4096);  // pinned
  const Buffer on_card = card().allocate(kSize, "test");
  const auto whole = [](const Buffer& buffer) { return buffer.bytes().first(kSize); };  // allocations are rounded up
  for (int round = 0; round < 3; ++round) {
    stream->run([&host, round] {
      for (std::size_t i = 0; i < kSize; ++i) host.bytes()[i] = static_cast<std::byte>(i * 31 + i / 4096 + round);
    });
    stream->copy(whole(on_card), whole(host));
    other->wait(stream->record());
    other->copy(whole(back), whole(on_card));
    other->copy(small.bytes(), on_card.bytes().first(small.size_bytes()));
    other->synchronize();
    EXPECT_TRUE(std::equal(whole(host).begin(), whole(host).end(), back.bytes().begin())) << round;
    EXPECT_TRUE(std::equal(small.bytes().begin(), small.bytes().end(), back.bytes().begin())) << round;
    stream->copy(back.bytes().subspan(3, kMiB), host.bytes().subspan(kMiB, kMiB));  // pageable to pageable
    stream->synchronize();
    EXPECT_TRUE(std::equal(back.bytes().begin() + 3, back.bytes().begin() + 3 + kMiB, host.bytes().begin() + kMiB));
  }
}

TEST_F(CudaDeviceTest, HostWorkRunsInItsPlaceAndMayWaitForAnything) {
  const auto stream = card().make_stream("work");
  const auto other = card().make_stream("other");
  const Buffer host = card().allocate_pinned(4096);
  const Buffer on_card = card().allocate(4096, "test");
  std::promise<void> gate;
  std::fill(host.bytes().begin(), host.bytes().end(), std::byte{1});
  stream->run([&] { gate.get_future().wait(); });
  stream->run([&] { std::fill(host.bytes().begin(), host.bytes().end(), std::byte{7}); });
  stream->copy(on_card.bytes(), host.bytes());
  const Event event = stream->record();
  EXPECT_FALSE(event.passed());
  // The other stream's host work is not held up by this one's.
  bool ran = false;
  other->run([&] { ran = true; });
  other->synchronize();
  EXPECT_TRUE(ran);
  gate.set_value();
  std::vector<std::byte> result(4096);
  other->wait(event);
  other->copy(result, on_card.bytes());
  other->synchronize();
  EXPECT_TRUE(event.passed());
  EXPECT_EQ(result[100], std::byte{7});
}

TEST_F(CudaDeviceTest, WaitsForEventsOfTheCpu) {
  CpuDevice cpu(kMiB);
  const auto on_cpu = cpu.make_stream("cpu");
  const auto stream = card().make_stream("card");
  std::promise<void> gate;
  int value = 0;
  on_cpu->run([&] {
    gate.get_future().wait();
    value = 1;
  });
  stream->wait(on_cpu->record());
  int seen = -1;
  stream->run([&] { seen = value; });
  gate.set_value();
  stream->synchronize();
  EXPECT_EQ(seen, 1);
}

TEST_F(CudaDeviceTest, AFailureRidesOnLaterEventsAndSkipsLaterWork) {
  const auto stream = card().make_stream("fails");
  const auto waits = card().make_stream("waits");
  const Event before = stream->record();
  bool ran = false;
  stream->run([] { throw DeviceError("the kernel fell over"); });
  stream->run([&] { ran = true; });
  const Event after = stream->record();
  waits->wait(after);
  EXPECT_NO_THROW(before.wait());
  EXPECT_THROW(after.wait(), DeviceError);
  EXPECT_THROW(waits->synchronize(), DeviceError);
  EXPECT_FALSE(ran);
}

class Counter : public StreamWatcher {
 public:
  void begins() override { ADD_FAILURE() << "a card tells afterwards"; }
  void ends() override { ADD_FAILURE() << "a card tells afterwards"; }
  void worked(std::int64_t begin_ns, std::int64_t end_ns) override {
    EXPECT_GE(begin_ns, last_ns - 100'000);  // two clocks
    EXPECT_GE(end_ns, begin_ns);
    last_ns = end_ns;
    told += "w";
  }
  void labelled(const std::string& text) override { told += text; }
  std::string told;
  std::int64_t last_ns = SteadyClock().now_ns();
};

TEST_F(CudaDeviceTest, TellsAWatcherOfEachPieceOfWork) {
  const auto stream = card().make_stream("watched");
  const Buffer on_card = card().allocate(4096, "test");
  Counter counter;
  stream->clear(on_card.bytes());
  stream->watch(&counter);
  stream->clear(on_card.bytes());
  stream->clear(on_card.bytes());
  stream->label("a");
  stream->clear(on_card.bytes());
  stream->run([] {});
  stream->label("b");
  stream->tell();
  EXPECT_EQ(counter.told, "wawwb");
  EXPECT_LE(counter.last_ns, SteadyClock().now_ns() + 100'000);
  stream->watch(nullptr);
  stream->clear(on_card.bytes());
  stream->synchronize();
  EXPECT_EQ(counter.told, "wawwb");
}

}  // namespace
}  // namespace sluice
