// SPDX-License-Identifier: Apache-2.0
#include "tier/direct_reader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"
#include "device/cpu/cpu_device.h"
#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"
#include "io/threads/threads_engine.h"
#include "tier/direct_speed.h"
#include "tier/fake_store.h"
#include "tier/plain_storage.h"
#include "tier/slice_loader.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kChunkBytes = 64 * kKiB;

// Two drives; slices of many parts, and of less than a block.
class DirectReads : public testing::Test {
 protected:
  DirectReads()
      : store_(SliceStore::create({.files = files_,
                                   .engine = engine_,
                                   .caching = Caching::kPageCache,
                                   .directories = {one_.path(), two_.path()},
                                   .growth_bytes = kMiB},
                                  {.weights = {2, 1}, .chunk_bytes = kChunkBytes})),
        ring_(device_, engine_, host_, {.slot_bytes = 2 * kChunkBytes, .num_slots = 4}),
        direct_(std::make_unique<PlainStorage>(read_bytes_)),
        loader_(*store_, ring_, device_, nullptr, &direct_) {
    for (const auto& [key, slice] : slices_) put(*store_, key, slice);
    store_->commit("filled");
  }

  Arrival load(const std::string& key, std::span<std::byte> into) {
    return loader_.load([this, key] { return store_->find(key); }, into);
  }

  const std::map<std::string, TestSlice> slices_{
      {"large", {1, 13 * kMiB + 5}}, {"chunk", {2, kChunkBytes}}, {"small", {3, 100}}};
  ScratchDirectory one_;
  ScratchDirectory two_;
  PosixFileSystem files_;
  ThreadsEngine engine_{4};
  CpuDevice device_{32 * kMiB};
  Budget host_{"host", 4 * kMiB};
  std::unique_ptr<SliceStore> store_;
  StagingRing ring_;
  std::atomic<std::uint64_t> read_bytes_{0};
  DirectReader direct_;
  SliceLoader loader_;
};

TEST_F(DirectReads, BringSlicesWhole) {
  for (const auto& [key, slice] : slices_) {
    const std::uint64_t before = read_bytes_;
    const Buffer place = device_.allocate(round_up(slice.size_bytes, kBlockBytes), key);
    load(key, place.bytes()).get().wait();
    const std::vector<std::byte> expected = slice.bytes();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), place.bytes().begin())) << key;
    EXPECT_EQ(read_bytes_ - before, store_->find(key)->stored_bytes()) << key;
  }
}

TEST_F(DirectReads, WaitUntilTheMemoryIsFree) {
  const Buffer place = device_.allocate(store_->find("large")->stored_bytes(), "large");
  const std::unique_ptr<Stream> user = device_.make_stream("user");
  std::promise<void> gate;
  user->run([&gate] { gate.get_future().wait(); });
  std::promise<void> found;  // the read lane is at it
  const Arrival arrival = loader_.load(
      [&] {
        found.set_value();
        return store_->find("large");
      },
      place.bytes(), user->record());
  found.get_future().wait();
  EXPECT_EQ(arrival.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_EQ(read_bytes_, 0U);
  gate.set_value();
  arrival.get().wait();
  EXPECT_GT(read_bytes_, 0U);
}

TEST_F(DirectReads, GoThroughTheHostWherePaddingHasNoRoomAndIntoHostMemory) {
  const TestSlice& slice = slices_.at("large");
  const std::vector<std::byte> expected = slice.bytes();
  const Buffer place = device_.allocate(slice.size_bytes, "exactly");
  load("large", place.bytes()).get().wait();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), place.bytes().begin()));
  std::vector<std::byte> memory(round_up(slice.size_bytes, kBlockBytes));
  loader_.load(store_->find("large"), memory).get().wait();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), memory.begin()));
  EXPECT_EQ(read_bytes_, 0U);
}

TEST_F(DirectReads, TellOfDamageAsReadsThroughTheHostDo) {
  const SliceRef version = store_->find("large");
  const Extent place = version->record().extents.front();
  {
    std::fstream file((place.drive_idx == 0 ? one_ : two_).path("slices.dat"), std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(place.offset + 70));
    file.put('!');
  }
  const Buffer memory = device_.allocate(version->stored_bytes(), "large");
  std::vector<std::string> messages;
  for (const Arrival& arrival : {load("large", memory.bytes()), loader_.load(version, memory.bytes())}) {
    try {
      arrival.get().wait();
      FAIL() << "damage went unnoticed";
    } catch (const FormatError& error) {
      messages.emplace_back(error.what());
    }
  }
  EXPECT_THAT(messages.front(), HasSubstr("'large' is damaged"));
  EXPECT_EQ(messages.front(), messages.back());
  load("small", memory.bytes()).get().wait();
}

TEST_F(DirectReads, CarryTheirFailureToWhoWaits) {
  std::filesystem::resize_file(one_.path("slices.dat"), kMiB);
  const Buffer memory = device_.allocate(store_->find("large")->stored_bytes(), "large");
  const Arrival arrival = load("large", memory.bytes());
  EXPECT_THROW(arrival.get(), IoError);
}

TEST_F(DirectReads, AreMeasuredBesideThoseThroughTheHostAndLeaveNothing) {
  const SteadyClock clock;
  CpuDevice device(64 * kMiB);
  Budget host("host", 64 * kMiB);
  const ScratchDirectory directory;
  const DirectSpeed speed = measure_direct_reads({.files = files_,
                                                  .engine = engine_,
                                                  .caching = Caching::kPageCache,
                                                  .device = device,
                                                  .host = host,
                                                  .clock = clock},
                                                 direct_, directory.path());
  EXPECT_GT(speed.direct_gb_per_s, 0);
  EXPECT_GT(speed.staged_gb_per_s, 0);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  EXPECT_EQ(device.free_bytes(), device.arena_bytes());
  EXPECT_EQ(host.used_bytes(), 0U);
}

// Every look is a second later, and a read takes as long as its storage says.
class TrialClock : public Clock {
 public:
  std::int64_t now_ns() const override { return now_ns_ += 1'000'000'000; }
  void pass(std::int64_t ns) const { now_ns_ += ns; }

 private:
  mutable std::atomic<std::int64_t> now_ns_{0};
};

// Moves nothing but the clock.
class TimedStorage final : public DirectStorage {
 public:
  TimedStorage(const TrialClock& clock, std::int64_t read_ns) : clock_(clock), read_ns_(read_ns) {}
  std::unique_ptr<DirectFile> open(const std::string&) override {
    class TimedFile final : public DirectFile {
     public:
      explicit TimedFile(const TimedStorage& storage) : storage_(storage) {}
      void read(std::uint64_t, std::span<std::byte>) override { storage_.clock_.pass(storage_.read_ns_); }

     private:
      const TimedStorage& storage_;
    };
    return std::make_unique<TimedFile>(*this);
  }
  std::vector<std::uint64_t> chunk_sums(std::span<const std::byte>, std::uint64_t) override { return {}; }

 private:
  const TrialClock& clock_;
  std::int64_t read_ns_;
};

class ClosedStorage final : public DirectStorage {
 public:
  std::unique_ptr<DirectFile> open(const std::string&) override { throw IoError(EINVAL, "no O_DIRECT there"); }
  std::vector<std::uint64_t> chunk_sums(std::span<const std::byte>, std::uint64_t) override { return {}; }
};

// A device that reads past the host, or says why not.
class DirectDevice : public CpuDevice {
 public:
  DirectDevice(std::uint64_t arena_bytes, std::string why_not) : CpuDevice(arena_bytes), why_not_(std::move(why_not)) {}
  DirectStorageFinding open_direct_storage(DirectWay way) override {
    ways.push_back(way);
    if (!why_not_.empty()) return {nullptr, why_not_};
    if (opens_nothing) return {std::make_unique<ClosedStorage>(), ""};
    if (timed_by != nullptr) return {std::make_unique<TimedStorage>(*timed_by, read_ns), ""};
    return {std::make_unique<PlainStorage>(read_bytes_), ""};
  }

  std::vector<DirectWay> ways;
  bool opens_nothing = false;
  const TrialClock* timed_by = nullptr;
  std::int64_t read_ns = 0;

 private:
  std::string why_not_;
  std::atomic<std::uint64_t> read_bytes_{0};
};

TEST_F(DirectReads, AreChosenWhereTheyCanBeAndAreFaster) {
  const TrialClock clock;
  Budget host("host", 64 * kMiB);
  const auto choose = [&](DirectDevice& device, DirectWish wish) {
    return choose_direct_reads(wish,
                               {.files = files_,
                                .engine = engine_,
                                .caching = Caching::kPageCache,
                                .device = device,
                                .host = host,
                                .clock = clock},
                               {one_.path(), two_.path()});
  };
  DirectDevice able(64 * kMiB, "");
  EXPECT_EQ(choose(able, DirectWish::kOff).reader, nullptr);
  EXPECT_THAT(able.ways, testing::IsEmpty());
  EXPECT_NE(choose(able, DirectWish::kOn).reader, nullptr);
  // Both take a second, but for what reads add.
  able.timed_by = &clock;
  for (const std::int64_t read_ns : {-1'000'000, 1'000'000}) {
    able.read_ns = read_ns;
    const DirectChoice choice = choose(able, DirectWish::kAuto);
    EXPECT_EQ(choice.reader != nullptr, read_ns < 0) << choice.why;
    EXPECT_THAT(choice.why, HasSubstr("GB/s past the host"));
  }
  EXPECT_THAT(able.ways, testing::ElementsAre(DirectWay::kAnyhow, DirectWay::kPastTheHost, DirectWay::kPastTheHost));
  // No room to measure in: a run can do without.
  DirectDevice small(kMiB, "");
  const DirectChoice unmeasured = choose(small, DirectWish::kAuto);
  EXPECT_EQ(unmeasured.reader, nullptr);
  EXPECT_THAT(unmeasured.why, HasSubstr("device memory"));
  able.opens_nothing = true;
  EXPECT_EQ(choose(able, DirectWish::kAuto).reader, nullptr);
  try {
    choose(able, DirectWish::kOn);
    FAIL() << "a drive that cannot be read past the host went unnoticed";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("direct_storage is on"), HasSubstr("no O_DIRECT")));
  }
  for (const ScratchDirectory* directory : {&one_, &two_}) {
    for (const auto& entry : std::filesystem::directory_iterator(directory->path())) {
      EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("sluice-direct")));
    }
  }
  DirectDevice unable(64 * kMiB, "no module");
  EXPECT_EQ(choose(unable, DirectWish::kAuto).why, "no module");
  EXPECT_THROW(choose(unable, DirectWish::kOn), InvalidInput);
}

}  // namespace
}  // namespace sluice
