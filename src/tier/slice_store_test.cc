// SPDX-License-Identifier: Apache-2.0
#include "tier/slice_store.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/page_memory.h"
#include "base/units.h"
#include "io/choose_engine.h"
#include "io/posix/posix_file.h"
#include "tier/fake_store.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SliceStoreOn : public testing::TestWithParam<std::size_t> {
 protected:
  SliceStoreOn() : fake_(GetParam()), store_(SliceStore::create(fake_.home(), FakeStore::shape(GetParam()))) {}

  void reopen() {
    store_.reset();
    store_ = SliceStore::open(fake_.home());
  }

  FakeStore fake_;
  std::unique_ptr<SliceStore> store_;
};

TEST_P(SliceStoreOn, CommittedSlicesComeBackAndUncommittedOnesDoNot) {
  for (const std::uint64_t size : {1ULL, 4095ULL, 4096ULL, 8192ULL, 8193ULL, 100000ULL}) {
    put(*store_, "s" + std::to_string(size), {size, size});
  }
  store_->commit("one");
  put(*store_, "s1", {77, 500});
  put(*store_, "late", {78, 500});
  EXPECT_TRUE(holds(*store_, "s1", {77, 500})) << "the newest version is found before it is committed";
  reopen();
  for (const std::uint64_t size : {1ULL, 4095ULL, 4096ULL, 8192ULL, 8193ULL, 100000ULL}) {
    EXPECT_TRUE(holds(*store_, "s" + std::to_string(size), {size, size})) << size;
  }
  EXPECT_EQ(store_->find("late"), nullptr);
  EXPECT_EQ(store_->last_note(), "one");
  EXPECT_EQ(store_->taken_bytes(), listed_bytes(*store_));
}

TEST_P(SliceStoreOn, OldVersionsAreFreedWhenNothingRefersToThem) {
  put(*store_, "a", {1, 50000});
  store_->commit("1");
  const std::uint64_t one = store_->taken_bytes();
  SliceRef reader = store_->find("a");
  put(*store_, "a", {2, 50000});
  store_->commit("2");
  EXPECT_EQ(store_->taken_bytes(), 2 * one) << "a reader keeps the old version";
  const TestSlice old{1, 50000};
  EXPECT_EQ(get(*store_, *reader), old.bytes());
  reader.reset();
  EXPECT_EQ(store_->taken_bytes(), one);
  store_->remove("a");
  EXPECT_EQ(store_->find("a"), nullptr);
  store_->commit("3");
  EXPECT_EQ(store_->taken_bytes(), 0U);
  reopen();
  EXPECT_EQ(store_->find("a"), nullptr);
}

TEST_P(SliceStoreOn, SnapshotsKeepTheirVersionsUntilUnpinned) {
  put(*store_, "a", {1, 30000});
  put(*store_, "b", {2, 30000});
  store_->commit("first");
  const std::uint64_t written_before = store_->drive_bytes_written()[0];
  store_->pin("checkpoint-1");
  EXPECT_LE(store_->drive_bytes_written()[0] - written_before, 4 * kBlockBytes) << "a snapshot moves no data";
  put(*store_, "a", {3, 30000});
  store_->commit("second");
  store_->collect();
  reopen();
  EXPECT_TRUE(holds(*store_, "a", {3, 30000}));
  const TestSlice old{1, 30000};
  EXPECT_EQ(get(*store_, *store_->find_in_snapshot("checkpoint-1", "a")), old.bytes());
  EXPECT_EQ(store_->taken_bytes(), 3 * round_up(30000, kBlockBytes)) << "b is shared";
  ASSERT_EQ(store_->snapshots().size(), 1U);
  EXPECT_EQ(store_->snapshots()[0].note, "first");
  EXPECT_THROW(store_->pin("checkpoint-1"), InvalidInput);
  store_->unpin("checkpoint-1");
  EXPECT_EQ(store_->taken_bytes(), 2 * round_up(30000, kBlockBytes));
  reopen();
  EXPECT_TRUE(store_->snapshots().empty());
  EXPECT_EQ(store_->taken_bytes(), 2 * round_up(30000, kBlockBytes));
}

TEST_P(SliceStoreOn, GoingBackToASnapshotMakesItCurrentAndFreesWhatCameLater) {
  put(*store_, "a", {1, 30000});
  put(*store_, "b", {2, 30000});
  store_->commit("first");
  store_->pin("checkpoint-1");
  put(*store_, "a", {3, 30000});
  put(*store_, "c", {4, 30000});
  store_->remove("b");
  store_->commit("second");
  store_->pin("checkpoint-2");
  put(*store_, "a", {5, 30000});
  const std::uint64_t written_before = store_->drive_bytes_written()[0];
  store_->restore("checkpoint-1", {"checkpoint-2"});
  EXPECT_LE(store_->drive_bytes_written()[0] - written_before, 4 * kBlockBytes) << "going back moves no data";
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(store_->last_note(), "first");
    EXPECT_EQ(store_->committed().size(), 2U);
    EXPECT_TRUE(holds(*store_, "a", {1, 30000})) << "what was staged is forgotten";
    EXPECT_TRUE(holds(*store_, "b", {2, 30000}));
    ASSERT_EQ(store_->snapshots().size(), 1U);
    EXPECT_EQ(store_->taken_bytes(), 2 * round_up(30000, kBlockBytes));
    reopen();
  }
  put(*store_, "a", {6, 30000});
  store_->commit("another second");
  store_->restore("checkpoint-1", {});
  reopen();
  EXPECT_TRUE(holds(*store_, "a", {1, 30000})) << "any number of times";
  EXPECT_THROW(store_->restore("checkpoint-2", {}), InvalidInput);
}

TEST_P(SliceStoreOn, ADroppedWriterLeavesNoTrace) {
  {
    SliceWriter writer = store_->begin("a", 20000);
    EXPECT_GT(store_->taken_bytes(), 0U);
  }
  EXPECT_EQ(store_->taken_bytes(), 0U);
  EXPECT_EQ(store_->find("a"), nullptr);
}

TEST_P(SliceStoreOn, FragmentedSpaceIsStillUsable) {
  for (int i = 0; i < 40; ++i) put(*store_, "s" + std::to_string(i), {1, 8192});
  store_->commit("full");
  for (int i = 0; i < 40; i += 2) store_->remove("s" + std::to_string(i));
  store_->commit("holes");
  const std::uint64_t files = store_->file_bytes();
  put(*store_, "large", {9, 20 * 8192 / 2});
  store_->commit("large");
  EXPECT_EQ(store_->file_bytes(), files) << "holes are used before files grow";
  EXPECT_GT(store_->find("large")->record().extents.size(), GetParam()) << "the test means to use holes";
  reopen();
  EXPECT_TRUE(holds(*store_, "large", {9, 20 * 8192 / 2}));
}

TEST_P(SliceStoreOn, CollectGivesFreeSpaceBackToTheDrive) {
  put(*store_, "a", {1, 1000000});
  store_->commit("1");
  store_->remove("a");
  store_->commit("2");
  store_->collect();
  EXPECT_EQ(store_->file_bytes(), GetParam() * kDataStart);
  reopen();
  EXPECT_EQ(store_->sequence(), 2U);
}

TEST_P(SliceStoreOn, WearCountsWhatReachesEachDriveAndSurvivesReopening) {
  put(*store_, "a", {1, 800 * kKiB});
  store_->commit("1");
  const std::vector<std::uint64_t> written = store_->drive_bytes_written();
  std::uint64_t total = 0;
  for (const std::uint64_t bytes : written) total += bytes;
  EXPECT_GE(total, 800 * kKiB);
  EXPECT_LE(total, 800 * kKiB + 16 * kBlockBytes) << "journal and padding are small";
  reopen();
  EXPECT_GE(store_->drive_bytes_written()[0] + 2 * kBlockBytes, written[0]);
}

INSTANTIATE_TEST_SUITE_P(OneTwoAndThreeDrives, SliceStoreOn, testing::Values(1, 2, 3));

TEST(SliceStore, AFullDriveIsReportedBeforeAnythingMovesAndLosesNothing) {
  FakeStore fake;
  auto store = SliceStore::create(fake.home(), FakeStore::shape(1));
  put(*store, "a", {1, 30000});
  store->commit("1");
  fake.disk.set_free_bytes(64 * kMiB + 10000);
  try {
    store->begin("b", 10 * kMiB);
    FAIL() << "10 MiB fitted";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("/drive0"), HasSubstr("free"), HasSubstr("everything committed is kept")));
  }
  EXPECT_EQ(store->taken_bytes(), listed_bytes(*store));
  store.reset();
  EXPECT_TRUE(holds(*SliceStore::open(fake.home()), "a", {1, 30000}));
}

TEST(SliceStore, AfterAFailedCommitTheLastOneStandsAndNoMoreAreTaken) {
  for (const Fault fault : {Fault::kEio, Fault::kEnospc}) {
    for (const FakeOp op : {FakeOp::kWrite, FakeOp::kSync}) {
      FakeStore fake;
      auto store = SliceStore::create(fake.home(), FakeStore::shape(1));
      put(*store, "a", {1, 30000});
      store->commit("1");
      put(*store, "a", {2, 30000});
      fake.disk.set_hook([&](const FakeOperation& operation) { return operation.op == op ? fault : Fault::kNone; });
      EXPECT_THROW(store->commit("2"), IoError);
      fake.disk.set_hook(nullptr);
      EXPECT_THROW(store->commit("3"), IoError) << "nobody knows what the drive holds";
      store.reset();
      store = SliceStore::open(fake.home());
      EXPECT_TRUE(holds(*store, "a", {store->last_note() == "2" ? 2U : 1U, 30000}));
      EXPECT_EQ(store->taken_bytes(), listed_bytes(*store));
    }
  }
}

TEST(SliceStore, AFailedCommitWhoseRecordStandsIsStillWhole) {
  FakeStore fake(2);
  auto store = SliceStore::create(fake.home(), FakeStore::shape(2));
  put(*store, "a", {1, 30000});
  store->commit("1");
  put(*store, "a", {2, 30000});
  fake.disk.set_hook([](const FakeOperation& operation) {
    return operation.op == FakeOp::kWrite && operation.path.ends_with("journal.b") ? Fault::kEio : Fault::kNone;
  });
  EXPECT_THROW(store->commit("2"), IoError);
  fake.disk.set_hook(nullptr);
  // The run does not know yet and writes on: not over what the record in the other copy names.
  put(*store, "a", {3, 30000});
  put(*store, "b", {4, 30000});
  store.reset();
  store = SliceStore::open(fake.home());
  EXPECT_EQ(store->last_note(), "2");
  EXPECT_TRUE(holds(*store, "a", {2, 30000}));
}

TEST(SliceStore, ADriveOfALargerStoreIsNotTakenForAnInterruptedCreation) {
  FakeStore fake(3);
  auto store = SliceStore::create(fake.home(), FakeStore::shape(3));
  put(*store, "a", {1, 200000});
  store->commit("1");
  store.reset();
  StoreHome third = fake.home();
  third.directories = {"/drive2"};
  EXPECT_THROW(SliceStore::create(third, {}), InvalidInput);
  EXPECT_THROW(SliceStore::open(third), InvalidInput);
  EXPECT_TRUE(holds(*SliceStore::open(fake.home()), "a", {1, 200000}));
}

TEST(SliceStore, AFailedWriteShowsAtItsTicketAndCannotBeFinished) {
  FakeStore fake;
  auto store = SliceStore::create(fake.home(), FakeStore::shape(1));
  fake.disk.set_hook(
      [](const FakeOperation& operation) { return operation.op == FakeOp::kWrite ? Fault::kEio : Fault::kNone; });
  {
    SliceWriter writer = store->begin("a", 8192);
    const PageMemory memory(8192);
    Ticket ticket = writer.write(0, memory.bytes().first(8192));
    EXPECT_THROW(ticket.wait(), IoError);
    EXPECT_THROW(writer.finish(), IoError);
  }
  EXPECT_EQ(store->taken_bytes(), 0U);
}

TEST(SliceStore, ShortAndInterruptedTransfersChangeNothing) {
  FakeStore fake(2);
  // Names and sizes are not transfers and know no EAGAIN: only transfers see it.
  fake.disk.set_hook([random = Random(5)](const FakeOperation& operation) mutable {
    if (operation.op != FakeOp::kRead && operation.op != FakeOp::kWrite) return Fault::kNone;
    return random.one_in(3) ? (random.one_in(2) ? Fault::kEagain : Fault::kShort) : Fault::kNone;
  });
  auto store = SliceStore::create(fake.home(), FakeStore::shape(2));
  for (std::uint64_t i = 0; i < 20; ++i) put(*store, "s" + std::to_string(i), {i, 40000 + i});
  store->commit("1");
  store.reset();
  store = SliceStore::open(fake.home());
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(holds(*store, "s" + std::to_string(i), {i, 40000 + i})) << i;
}

TEST(SliceStore, ABitFlippedOrTornByTheDriveIsNoticedWhenRead) {
  for (const Fault fault : {Fault::kBitFlip, Fault::kTornWrite}) {
    FakeStore fake;
    auto store = SliceStore::create(fake.home(), FakeStore::shape(1));
    fake.disk.set_hook([&](const FakeOperation& operation) {
      return operation.op == FakeOp::kWrite && operation.path.ends_with("slices.dat") ? fault : Fault::kNone;
    });
    put(*store, "a", {1, 30000});
    fake.disk.set_hook(nullptr);
    store->commit("1");
    try {
      get(*store, *store->find("a"));
      FAIL() << "damage went unnoticed";
    } catch (const FormatError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'a'"), HasSubstr("/drive0/slices.dat"), HasSubstr("offset")));
    }
  }
}

TEST(SliceStore, DirectoriesThatCannotServeAreRefusedWithTheRemedy) {
  const std::string root = testing::TempDir() + "/sluice_store_refused";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root + "/good");
  PosixFileSystem files;
  const EngineChoice choice = choose_engine({root});
  const auto home = [&](std::vector<std::string> directories) {
    return StoreHome{files, *choice.engine, choice.caching, std::move(directories)};
  };
  const auto refusal = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "not refused";
  };
  EXPECT_THAT(refusal([&] { SliceStore::create(home({root + "/missing"}), {}); }),
              AllOf(HasSubstr(root + "/missing"), HasSubstr("make the directory")));
  EXPECT_THAT(refusal([&] { SliceStore::open(home({root + "/good"})); }), HasSubstr("holds no slice store"));
  EXPECT_THAT(refusal([&] { SliceStore::create(home({root + "/good", root + "/good"}), {}); }), HasSubstr("twice"));
  auto store = SliceStore::create(home({root + "/good"}), {});
  EXPECT_THAT(refusal([&] { SliceStore::open(home({root + "/good"})); }),
              AllOf(HasSubstr("in use by"), HasSubstr("another directory")));
  store.reset();
  EXPECT_THAT(refusal([&] { SliceStore::create(home({root + "/good"}), {}); }), HasSubstr("already"));
  std::filesystem::create_directories(root + "/foreign");
  {
    const auto file = files.open(root + "/foreign/slices.dat", OpenMode::kCreate, Caching::kPageCache);
    std::vector<std::byte> text(8192, std::byte{'x'});
    choice.engine->submit(IoRequest::write(*file, 0, text)).wait();
  }
  EXPECT_THAT(refusal([&] { SliceStore::open(home({root + "/foreign"})); }), HasSubstr("not a slice store"));
  EXPECT_THAT(refusal([&] { SliceStore::create(home({root + "/foreign"}), {}); }), HasSubstr("not a slice store"));

  std::filesystem::create_directories(root + "/d0");
  std::filesystem::create_directories(root + "/d1");
  store = SliceStore::create(home({root + "/d0", root + "/d1"}), {});
  store.reset();
  EXPECT_THAT(refusal([&] { SliceStore::open(home({root + "/d0"})); }), HasSubstr("2 drives"));
  EXPECT_THAT(refusal([&] { SliceStore::open(home({root + "/d0", root + "/good"})); }), HasSubstr("different stores"));
  store = SliceStore::open(home({root + "/d1", root + "/d0"}));
  EXPECT_EQ(store->directories(), (std::vector<std::string>{root + "/d0", root + "/d1"})) << "the order given is free";
  store.reset();
  std::filesystem::remove_all(root);
}

// On the kernel's own files and engines, so that the sanitizers see what runs in production.
class SliceStoreThreads : public testing::TestWithParam<EngineWish> {};

TEST_P(SliceStoreThreads, EightThreadsReadWriteAndCommitAtOnce) {
  const std::string root = testing::TempDir() + "/sluice_store_threads" + std::to_string(static_cast<int>(GetParam()));
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root);
  {
    PosixFileSystem files;
    const EngineChoice choice = choose_engine({root}, GetParam());
    const StoreHome home{files, *choice.engine, choice.caching, {root}, kMiB};
    auto store = SliceStore::create(home, {.weights = {}, .chunk_bytes = 16 * kKiB});
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::uint64_t thread_idx = 0; thread_idx < 8; ++thread_idx) {
      threads.emplace_back([&, thread_idx] {
        const std::string key = "thread." + std::to_string(thread_idx);
        for (std::uint64_t round = 0; round < 25; ++round) {
          const TestSlice slice{thread_idx * 1000 + round, 20000 + 5000 * round};
          put(*store, key, slice);
          if (!holds(*store, key, slice)) ++wrong;
          if (round % 5 == thread_idx % 5) store->commit(key);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    store->commit("end");
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(store->taken_bytes(), listed_bytes(*store));
    store.reset();
    store = SliceStore::open(home);
    for (std::uint64_t i = 0; i < 8; ++i) {
      EXPECT_TRUE(holds(*store, "thread." + std::to_string(i), {i * 1000 + 24, 20000 + 5000 * 24}));
    }
  }
  std::filesystem::remove_all(root);
}

INSTANTIATE_TEST_SUITE_P(Engines, SliceStoreThreads, testing::Values(EngineWish::kAuto, EngineWish::kThreads));

}  // namespace
}  // namespace sluice
