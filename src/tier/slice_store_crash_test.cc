// SPDX-License-Identifier: Apache-2.0
// A store that loses power at every operation it makes: each time the last commit must be there, byte for byte, and
// nothing else may be taken.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tier/fake_store.h"
#include "tier/store_check.h"

namespace sluice {
namespace {

// What a store should hold, kept beside it.
struct Model {
  std::map<std::string, TestSlice> slices;
  std::map<std::string, std::map<std::string, TestSlice>> snapshots;
};

void expect_holds(const SliceStore& store, const Model& model) {
  ASSERT_EQ(store.committed().size(), model.slices.size());
  for (const auto& [key, slice] : model.slices) {
    const SliceRef version = store.find(key);
    ASSERT_NE(version, nullptr) << key;
    ASSERT_EQ(get(store, *version), slice.bytes()) << key;
  }
  ASSERT_EQ(store.snapshots().size(), model.snapshots.size());
  for (const auto& [name, slices] : model.snapshots) {
    for (const auto& [key, slice] : slices) {
      const SliceRef version = store.find_in_snapshot(name, key);
      ASSERT_NE(version, nullptr) << name << " " << key;
      ASSERT_EQ(get(store, *version), slice.bytes()) << name << " " << key;
    }
  }
  ASSERT_EQ(store.taken_bytes(), listed_bytes(store)) << "nothing is leaked";
}

// A life of commits, removals, snapshots and collections that follows from a seed. It knows two models: what has been
// committed for certain, and what the operation under way would make of it.
class Life {
 public:
  explicit Life(std::uint64_t seed) : random_(seed) {}

  void step(SliceStore& store) {
    attempted_ = certain_;
    switch (random_.below(9)) {
      case 8:
        go_back(store);
        break;
      case 0: {
        const std::string name = "snapshot" + std::to_string(random_.below(2));
        if (certain_.snapshots.contains(name)) {
          attempted_.snapshots.erase(name);
          store.unpin(name);
        } else {
          attempted_.snapshots[name] = certain_.slices;
          store.pin(name);
        }
        break;
      }
      case 1:
        store.collect();
        break;
      default:
        commit(store);
    }
    certain_ = attempted_;
  }

  void verify_recovered(const SliceStore& store, std::uint64_t certain_sequence) {
    ASSERT_GE(store.sequence(), certain_sequence) << "a commit that returned is kept";
    ASSERT_LE(store.sequence(), certain_sequence + 1);
    if (store.sequence() == certain_sequence + 1) certain_ = attempted_;
    expect_holds(store, certain_);
  }

  int num_returns() const { return num_returns_; }  // to a snapshot

 private:
  // To a snapshot, if there is one; half of the time the other goes with it.
  void go_back(SliceStore& store) {
    if (certain_.snapshots.empty()) return commit(store);
    const std::string name = certain_.snapshots.begin()->first;
    std::vector<std::string> dropped;
    if (certain_.snapshots.size() > 1 && random_.one_in(2)) dropped.push_back(certain_.snapshots.rbegin()->first);
    attempted_.slices = certain_.snapshots[name];
    for (const std::string& other : dropped) attempted_.snapshots.erase(other);
    ++num_returns_;
    store.restore(name, dropped);
  }

  void commit(SliceStore& store) {
    const std::uint64_t num_changes = 1 + random_.below(3);
    for (std::uint64_t i = 0; i < num_changes; ++i) {
      const std::string key = "slice" + std::to_string(random_.below(4));
      if (random_.one_in(6)) {
        attempted_.slices.erase(key);
        store.remove(key);
      } else {
        const TestSlice slice{random_.next(), 1 + random_.below(40000)};
        attempted_.slices[key] = slice;
        put(store, key, slice);
      }
    }
    store.commit("step");
  }

  Random random_;
  Model certain_;
  Model attempted_;
  int num_returns_ = 0;
};

constexpr int kSteps = 15;

// Runs a life until the power goes at operation `cut_at`. Returns how many operations it has in all if it never goes.
std::uint64_t live_once(std::uint64_t cut_at, std::uint64_t reboot_seed, std::size_t num_drives) {
  FakeStore fake(num_drives);
  Life life(12);
  std::uint64_t certain_sequence = 0;
  auto store = SliceStore::create(fake.home(), FakeStore::shape(num_drives));
  const std::uint64_t first = fake.disk.num_operations();
  fake.disk.set_hook([&](const FakeOperation& operation) {
    return operation.idx == first + cut_at ? Fault::kPowerCut : Fault::kNone;
  });
  try {
    for (int i = 0; i < kSteps; ++i) {
      life.step(*store);
      certain_sequence = store->sequence();
    }
    EXPECT_GT(life.num_returns(), 0);
    return fake.disk.num_operations() - first;
  } catch (const PowerCut&) {
    store.reset();
  }
  fake.disk.set_hook(nullptr);
  fake.disk.reboot(reboot_seed);
  store = SliceStore::open(fake.home());
  life.verify_recovered(*store, certain_sequence);
  if (testing::Test::HasFatalFailure()) return 0;
  // It goes on from there, and ends without a trace of the crash.
  certain_sequence = store->sequence();
  life.step(*store);
  store.reset();
  EXPECT_TRUE(check_store(fake.home(), Repair::kYes, {}).whole());
  EXPECT_TRUE(check_store(fake.home(), Repair::kNo, {}).findings.empty());
  store = SliceStore::open(fake.home());
  life.verify_recovered(*store, store->sequence());
  return 0;
}

TEST(SliceStoreCrash, PowerCutAtEveryOperationLeavesExactlyTheLastCommit) {
  std::uint64_t num_cuts = 0;
  for (const std::size_t num_drives : {1U, 2U}) {
    const std::uint64_t num_operations = live_once(~0ULL, 0, num_drives);
    ASSERT_GT(num_operations, 100U);
    for (std::uint64_t cut_at = 0; cut_at < num_operations; ++cut_at) {
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        live_once(cut_at, cut_at * 100 + seed, num_drives);
        ASSERT_FALSE(HasFatalFailure()) << num_drives << " drives, cut at " << cut_at << ", seed " << seed;
        ++num_cuts;
      }
    }
  }
  RecordProperty("cuts", static_cast<int>(num_cuts));
  EXPECT_GE(num_cuts, 1000U);
}

TEST(SliceStoreCrash, PowerCutsInALongLifeAndDuringRecoveryLoseNothing) {
  FakeStore fake(2);
  Life life(99);
  Random random(3);
  auto store = SliceStore::create(fake.home(), FakeStore::shape(2));
  std::uint64_t certain_sequence = store->sequence();
  for (int cut = 0; cut < 400; ++cut) {
    const std::uint64_t cut_at = fake.disk.num_operations() + random.below(60);
    fake.disk.set_hook(
        [cut_at](const FakeOperation& operation) { return operation.idx == cut_at ? Fault::kPowerCut : Fault::kNone; });
    try {
      if (!store) {
        store = SliceStore::open(fake.home());
        life.verify_recovered(*store, certain_sequence);
        ASSERT_FALSE(HasFatalFailure()) << "cut " << cut;
        certain_sequence = store->sequence();
      }
      while (true) {
        life.step(*store);
        certain_sequence = store->sequence();
      }
    } catch (const PowerCut&) {
      store.reset();
    }
    fake.disk.set_hook(nullptr);
    // The process died, or the machine: after the one, what is not durable may still go with the other.
    if (random.one_in(2)) {
      fake.disk.restart();
    } else {
      fake.disk.reboot(random.next());
    }
  }
}

TEST(SliceStoreCrash, WhatAKilledProcessLeftInThePageCacheIsMadeDurableBeforeItsExtentsAreReused) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    FakeStore fake;
    auto store = SliceStore::create(fake.home(), FakeStore::shape(1));
    put(*store, "a", {1, 30000});
    store->commit("1");
    put(*store, "a", {2, 30000});
    // Killed between writing the record and syncing it.
    fake.disk.set_hook([](const FakeOperation& operation) {
      const bool journal = operation.path.find("journal") != std::string::npos;
      return operation.op == FakeOp::kSync && journal ? Fault::kPowerCut : Fault::kNone;
    });
    EXPECT_THROW(store->commit("2"), PowerCut);
    store.reset();
    fake.disk.set_hook(nullptr);
    fake.disk.restart();
    store = SliceStore::open(fake.home());
    ASSERT_EQ(store->last_note(), "2");
    put(*store, "b", {3, 30000});  // where version 1 of `a` was
    store.reset();
    fake.disk.reboot(seed);
    store = SliceStore::open(fake.home());
    EXPECT_TRUE(holds(*store, "a", {2, 30000})) << seed;
  }
}

TEST(SliceStoreCrash, WhatIsWrittenWhileACommitIsUnderWayNeverTouchesTheLastOne) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    FakeStore fake;
    auto store = SliceStore::create(fake.home(), FakeStore::shape(1));
    put(*store, "a", {1, 30000});
    store->commit("1");
    put(*store, "a", {2, 30000});
    // Just before the record is written another slice arrives and takes whatever is free; then the power goes.
    bool arrived = false;
    fake.disk.set_hook([&](const FakeOperation& operation) {
      const bool journal = operation.path.find("journal") != std::string::npos;
      if (journal && operation.op == FakeOp::kWrite && !arrived) {
        arrived = true;
        put(*store, "b", {3, 30000});
      }
      return journal && operation.op == FakeOp::kSync ? Fault::kPowerCut : Fault::kNone;
    });
    EXPECT_THROW(store->commit("2"), PowerCut);
    ASSERT_TRUE(arrived);
    store.reset();
    fake.disk.set_hook(nullptr);
    fake.disk.reboot(seed);
    store = SliceStore::open(fake.home());
    EXPECT_TRUE(holds(*store, "a", {store->last_note() == "1" ? 1U : 2U, 30000})) << seed;
  }
}

TEST(SliceStoreCrash, PowerCutWhileAStoreIsMadeLeavesAPlaceToMakeIt) {
  for (std::uint64_t cut_at = 0; cut_at < 40; ++cut_at) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      FakeStore fake(2);
      fake.disk.set_hook([cut_at](const FakeOperation& operation) {
        return operation.idx == cut_at ? Fault::kPowerCut : Fault::kNone;
      });
      try {
        SliceStore::create(fake.home(), FakeStore::shape(2));
        continue;
      } catch (const PowerCut&) {
        fake.disk.set_hook(nullptr);
        fake.disk.reboot(seed);
      }
      const auto store = SliceStore::holds_store(fake.home()) ? SliceStore::open(fake.home())
                                                              : SliceStore::create(fake.home(), FakeStore::shape(2));
      EXPECT_TRUE(store->committed().empty()) << cut_at << " " << seed;
    }
  }
}

TEST(SliceStoreCrash, ATornCommitRecordIsIgnored) {
  FakeStore fake;
  auto store = SliceStore::create(fake.home(), FakeStore::shape(1));
  put(*store, "a", {1, 30000});
  store->commit("1");
  put(*store, "a", {2, 30000});
  // Both copies lose their last sector, and the machine dies before anybody knows.
  fake.disk.set_hook([](const FakeOperation& operation) {
    return operation.op == FakeOp::kWrite && operation.path.find("journal") != std::string::npos ? Fault::kTornWrite
                                                                                                 : Fault::kNone;
  });
  store->commit("2");
  store.reset();
  fake.disk.set_hook(nullptr);
  store = SliceStore::open(fake.home());
  EXPECT_EQ(store->last_note(), "1");
  EXPECT_TRUE(holds(*store, "a", {1, 30000}));
  EXPECT_EQ(store->taken_bytes(), listed_bytes(*store));
}

}  // namespace
}  // namespace sluice
