// SPDX-License-Identifier: Apache-2.0
#include "io/fake/fake_disk.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <functional>

#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kSector = FakeDisk::kSectorBytes;
constexpr std::uint64_t kSeeds = 200;  // power cuts to try: enough for every kind of loss

Bytes filled(std::uint64_t size, unsigned char value) { return Bytes(size, std::byte{value}); }

struct Machine {
  std::unique_ptr<File> create(const std::string& path) {
    return disk.open(path, OpenMode::kCreate, Caching::kPageCache);
  }
  void write(File& file, std::uint64_t offset, const Bytes& bytes) {
    engine.submit(IoRequest::write(file, offset, bytes)).wait();
  }
  void sync(File& file) { engine.submit(IoRequest::sync(file)).wait(); }
  Bytes read(File& file, std::uint64_t offset, std::uint64_t size) {
    Bytes bytes(size);
    engine.submit(IoRequest::read(file, offset, bytes)).wait();
    return bytes;
  }
  // Lets the next operation of this kind have the fault, once.
  void inject(FakeOp op, Fault fault) {
    disk.set_hook([op, fault, used = false](const FakeOperation& operation) mutable {
      if (used || operation.op != op) return Fault::kNone;
      used = true;
      return fault;
    });
  }
  void cut_power() {
    disk.set_hook([](const FakeOperation&) { return Fault::kPowerCut; });
    EXPECT_THROW(disk.sync_directory("/elsewhere"), PowerCut);
    disk.set_hook({});
  }

  FakeDisk disk;
  FakeEngine engine{disk};
};

class FakeDiskTest : public testing::Test, public Machine {};

// Does `prepare` on a new machine and cuts its power, once for each seed; then `judge` sees what is left.
void for_each_power_cut(const std::function<void(Machine&)>& prepare, const std::function<void(Machine&)>& judge) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Machine machine;
    prepare(machine);
    machine.cut_power();
    machine.disk.reboot(seed);
    judge(machine);
  }
}

TEST_F(FakeDiskTest, PowerCutKeepsSyncedBytesAndAnyWholeSectorsOfTheRest) {
  constexpr std::uint64_t kSectors = 8;
  int num_all_lost = 0;
  int num_all_kept = 0;
  int num_mixed = 0;
  for_each_power_cut(
      [](Machine& machine) {
        const auto file = machine.create("/d/file");
        machine.disk.sync_directory("/d");
        machine.write(*file, 0, filled(2 * kSectors * kSector, 'a'));
        machine.sync(*file);
        machine.write(*file, 0, filled(kSectors * kSector, 'b'));
      },
      [&](Machine& machine) {
        const Bytes left = machine.disk.contents("/d/file");
        ASSERT_EQ(left.size(), 2 * kSectors * kSector);
        std::uint64_t num_kept = 0;
        for (std::uint64_t i = 0; i < 2 * kSectors; ++i) {
          const auto sector = left.begin() + static_cast<std::ptrdiff_t>(i * kSector);
          const auto all_are = [&](char value) {
            return std::all_of(sector, sector + kSector, [&](std::byte byte) { return byte == std::byte(value); });
          };
          ASSERT_TRUE(all_are('a') || (i < kSectors && all_are('b'))) << "sector " << i;
          num_kept += all_are('b') ? 1 : 0;
        }
        ++(num_kept == 0 ? num_all_lost : num_kept == kSectors ? num_all_kept : num_mixed);
      });
  EXPECT_GT(num_all_lost, 0);
  EXPECT_GT(num_all_kept, 0);
  EXPECT_GT(num_mixed, 0);
}

TEST_F(FakeDiskTest, WhatWasSyncedIsThereWhateverWasDoneBefore) {
  Random random(9);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Machine machine;
    const auto file = machine.create("/d/file");
    machine.disk.sync_directory("/d");
    Bytes model;
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t size = random.below(6 * kSector);
      switch (random.below(4)) {
        case 0: {
          Bytes bytes(1 + random.below(3 * kSector));
          random.fill(bytes);
          machine.write(*file, size, bytes);
          model.resize(std::max<std::uint64_t>(model.size(), size + bytes.size()));
          std::copy(bytes.begin(), bytes.end(), model.begin() + static_cast<std::ptrdiff_t>(size));
          break;
        }
        case 1:
          file->truncate(size);
          model.resize(size);
          break;
        case 2:
          file->preallocate(size);
          model.resize(std::max<std::uint64_t>(model.size(), size));
          break;
        default:
          machine.sync(*file);
      }
    }
    machine.sync(*file);
    EXPECT_EQ(machine.disk.contents("/d/file"), model);
    machine.cut_power();
    machine.disk.reboot(seed);
    EXPECT_EQ(machine.disk.contents("/d/file"), model);
  }
}

TEST_F(FakeDiskTest, UnsyncedGrowthMayBeLostOrComeAsZeroes) {
  std::set<std::uint64_t> sizes;
  bool zeroes = false;
  for_each_power_cut(
      [](Machine& machine) {
        const auto file = machine.create("/d/file");
        machine.disk.sync_directory("/d");
        machine.write(*file, 0, filled(kSector, 'a'));
        machine.sync(*file);
        machine.write(*file, kSector, filled(2 * kSector, 'b'));
      },
      [&](Machine& machine) {
        const Bytes left = machine.disk.contents("/d/file");
        sizes.insert(left.size());
        zeroes = zeroes || (left.size() == 3 * kSector && left.back() == std::byte{0});
      });
  EXPECT_EQ(sizes, (std::set<std::uint64_t>{kSector, 3 * kSector}));
  EXPECT_TRUE(zeroes);
}

TEST_F(FakeDiskTest, NamesNeedTheirDirectorySynced) {
  std::set<std::vector<std::string>> outcomes;
  for_each_power_cut(
      [](Machine& machine) {
        for (const char* name : {"/d/kept", "/d/old", "/d/doomed"}) machine.create(name);
        machine.disk.sync_directory("/d");
        machine.create("/d/new");
        machine.disk.rename("/d/old", "/d/renamed");
        machine.disk.remove("/d/doomed");
        machine.disk.sync_directory("/another");
      },
      [&](Machine& machine) { outcomes.insert(machine.disk.list("/d")); });
  // In the order they were made, each whole or not at all.
  const std::set<std::vector<std::string>> expected{{"doomed", "kept", "old"},
                                                    {"doomed", "kept", "new", "old"},
                                                    {"doomed", "kept", "new", "renamed"},
                                                    {"kept", "new", "renamed"}};
  EXPECT_EQ(outcomes, expected);
}

TEST_F(FakeDiskTest, SyncedNamesSurviveEveryPowerCut) {
  for_each_power_cut(
      [](Machine& machine) {
        const auto file = machine.create("/d/temporary");
        machine.create("/d/doomed");
        machine.write(*file, 0, filled(100, 'x'));
        machine.sync(*file);
        machine.disk.rename("/d/temporary", "/d/final");
        machine.disk.remove("/d/doomed");
        machine.disk.sync_directory("/d");
      },
      [](Machine& machine) {
        EXPECT_EQ(machine.disk.list("/d"), std::vector<std::string>{"final"});
        EXPECT_EQ(machine.disk.contents("/d/final"), filled(100, 'x'));
      });
}

TEST_F(FakeDiskTest, WithoutPowerEverythingThrowsUntilReboot) {
  const auto file = create("/d/file");
  write(*file, 0, filled(100, 'x'));
  sync(*file);
  disk.sync_directory("/d");
  const auto lock = disk.lock("/d/file");
  inject(FakeOp::kWrite, Fault::kPowerCut);
  const Bytes bytes = filled(100, 'y');
  Ticket ticket = engine.submit(IoRequest::write(*file, 0, bytes));
  EXPECT_THROW(ticket.wait(), PowerCut);

  EXPECT_THROW(read(*file, 0, 100), PowerCut);
  EXPECT_THROW(write(*file, 0, filled(1, 'z')), PowerCut);
  EXPECT_THROW(sync(*file), PowerCut);
  EXPECT_THROW(file->size_bytes(), PowerCut);
  EXPECT_THROW(file->preallocate(4096), PowerCut);
  EXPECT_THROW(file->truncate(0), PowerCut);
  EXPECT_THROW(create("/d/new"), PowerCut);
  EXPECT_THROW(create("/d/file"), PowerCut);
  EXPECT_THROW(disk.exists("/d/file"), PowerCut);
  EXPECT_THROW(disk.require_directory("/d", OpenMode::kReadOnly), PowerCut);
  EXPECT_THROW(disk.list("/d"), PowerCut);
  EXPECT_THROW(disk.rename("/d/file", "/d/new"), PowerCut);
  EXPECT_THROW(disk.remove("/d/file"), PowerCut);
  EXPECT_THROW(disk.sync_directory("/d"), PowerCut);
  EXPECT_THROW(disk.free_bytes("/d"), PowerCut);
  EXPECT_THROW(disk.lock("/d/file"), PowerCut);

  disk.reboot(1);
  EXPECT_EQ(disk.list("/d"), std::vector<std::string>{"file"});
  EXPECT_EQ(read(*create("/d/file"), 0, 100).size(), 100U);
  EXPECT_NO_THROW(disk.lock("/d/file"));  // the crash released the lock
}

TEST_F(FakeDiskTest, LockIsHeldByOneUntilDropped) {
  create("/d/file");
  create("/d/other");
  auto lock = disk.lock("/d/file");
  EXPECT_THROW(disk.lock("/d/file"), InvalidInput);
  EXPECT_NO_THROW(disk.lock("/d/other"));
  disk.rename("/d/file", "/d/renamed");
  EXPECT_THROW(disk.lock("/d/renamed"), InvalidInput);
  lock.reset();
  EXPECT_NO_THROW(disk.lock("/d/renamed"));
}

// The number of bits in which two equally long runs differ.
int bits_apart(const Bytes& a, const Bytes& b) {
  EXPECT_EQ(a.size(), b.size());
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += std::popcount(static_cast<unsigned char>(a[i] ^ b[i]));
  return count;
}

TEST_F(FakeDiskTest, BitFlipsOnceWhenReadAndForGoodWhenWritten) {
  const Bytes bytes = filled(1000, 'x');
  const auto file = create("/d/file");
  write(*file, 0, bytes);
  inject(FakeOp::kRead, Fault::kBitFlip);
  EXPECT_EQ(bits_apart(read(*file, 0, 1000), bytes), 1);
  EXPECT_EQ(bits_apart(read(*file, 0, 1000), bytes), 0);

  inject(FakeOp::kWrite, Fault::kBitFlip);
  write(*file, 0, bytes);
  EXPECT_EQ(bits_apart(read(*file, 0, 1000), bytes), 1);
}

TEST_F(FakeDiskTest, FlipBitChangesThatBitAndIsThereAfterAPowerCut) {
  const auto file = create("/d/file");
  write(*file, 0, filled(1000, 0));
  sync(*file);
  disk.sync_directory("/d");
  disk.flip_bit("/d/file", 8 * 77 + 3);
  Bytes expected = filled(1000, 0);
  expected[77] = std::byte{1U << 3};
  EXPECT_EQ(read(*file, 0, 1000), expected);
  cut_power();
  disk.reboot(5);
  EXPECT_EQ(disk.contents("/d/file"), expected);
}

TEST_F(FakeDiskTest, ShortTransfersAreCompletedByAFurtherOperation) {
  const auto file = create("/d/file");
  Bytes bytes(1000);
  Random(1).fill(bytes);
  std::vector<std::uint64_t> offsets;
  disk.set_hook([&](const FakeOperation& operation) {
    offsets.push_back(operation.offset);
    return operation.size_bytes == 1000 ? Fault::kShort : Fault::kNone;
  });
  write(*file, 0, bytes);
  EXPECT_EQ(read(*file, 0, 1000), bytes);
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{0, 500, 0, 500}));
}

TEST_F(FakeDiskTest, RefusedForNowIsTriedAgain) {
  const auto file = create("/d/file");
  inject(FakeOp::kWrite, Fault::kEagain);
  write(*file, 0, filled(10, 'x'));
  EXPECT_EQ(disk.contents("/d/file"), filled(10, 'x'));
}

TEST_F(FakeDiskTest, FullOrBrokenDriveFailsTheOperationAndChangesNothing) {
  const auto file = create("/d/file");
  write(*file, 0, filled(10, 'x'));
  const auto errno_of = [](const std::function<void()>& act) {
    try {
      act();
    } catch (const IoError& error) {
      return error.errno_value();
    }
    return 0;
  };
  for (const auto& [fault, errno_value] : {std::pair(Fault::kEnospc, ENOSPC), std::pair(Fault::kEio, EIO)}) {
    disk.set_hook([injected = fault](const FakeOperation&) { return injected; });
    EXPECT_EQ(errno_of([&] { write(*file, 5, filled(10, 'y')); }), errno_value);
    EXPECT_EQ(errno_of([&] { read(*file, 0, 10); }), errno_value);
    EXPECT_EQ(errno_of([&] { sync(*file); }), errno_value);
    EXPECT_EQ(errno_of([&] { file->preallocate(4096); }), errno_value);
    EXPECT_EQ(errno_of([&] { file->truncate(1); }), errno_value);
    EXPECT_EQ(errno_of([&] { create("/d/new"); }), errno_value);
    EXPECT_EQ(errno_of([&] { disk.rename("/d/file", "/d/new"); }), errno_value);
    EXPECT_EQ(errno_of([&] { disk.remove("/d/file"); }), errno_value);
    EXPECT_EQ(errno_of([&] { disk.sync_directory("/d"); }), errno_value);
  }
  EXPECT_EQ(disk.contents("/d/file"), filled(10, 'x'));
  EXPECT_EQ(disk.list("/d"), std::vector<std::string>{"file"});
}

TEST_F(FakeDiskTest, TornWriteReportsSuccessWithoutItsLastSector) {
  const auto file = create("/d/file");
  write(*file, 0, filled(3 * kSector, 'a'));
  inject(FakeOp::kWrite, Fault::kTornWrite);
  write(*file, 0, filled(3 * kSector, 'b'));
  Bytes expected = filled(3 * kSector, 'b');
  std::fill(expected.end() - kSector, expected.end(), std::byte{'a'});
  EXPECT_EQ(disk.contents("/d/file"), expected);
}

TEST_F(FakeDiskTest, DelayedTransfersEndWhenToldOldestLast) {
  const auto file = create("/d/file");
  disk.set_hook([](const FakeOperation&) { return Fault::kDelay; });
  const Bytes older = filled(10, 'o');
  const Bytes newer = filled(10, 'n');
  Ticket older_ticket = engine.submit(IoRequest::write(*file, 0, older));
  Ticket newer_ticket = engine.submit(IoRequest::write(*file, 5, newer));
  EXPECT_FALSE(older_ticket.done());
  EXPECT_FALSE(newer_ticket.done());
  EXPECT_TRUE(disk.contents("/d/file").empty());
  engine.complete_delayed();
  EXPECT_TRUE(older_ticket.done());
  EXPECT_TRUE(newer_ticket.done());
  Bytes expected = filled(15, 'o');
  std::fill(expected.begin() + 10, expected.end(), std::byte{'n'});
  EXPECT_EQ(disk.contents("/d/file"), expected);
}

TEST_F(FakeDiskTest, HookSeesEveryOperationInOrder) {
  std::vector<std::pair<FakeOp, std::string>> seen;
  disk.set_hook([&](const FakeOperation& operation) {
    EXPECT_EQ(operation.idx, seen.size());
    seen.emplace_back(operation.op, operation.path);
    return Fault::kNone;
  });
  const auto file = create("/d/a");
  file->preallocate(100);
  write(*file, 0, filled(10, 'x'));
  read(*file, 0, 10);
  sync(*file);
  file->truncate(5);
  disk.rename("/d/a", "/d/b");
  disk.remove("/d/b");
  disk.sync_directory("/d");
  const std::vector<std::pair<FakeOp, std::string>> expected{
      {FakeOp::kCreate, "/d/a"}, {FakeOp::kPreallocate, "/d/a"}, {FakeOp::kWrite, "/d/a"},
      {FakeOp::kRead, "/d/a"},   {FakeOp::kSync, "/d/a"},        {FakeOp::kTruncate, "/d/a"},
      {FakeOp::kRename, "/d/b"}, {FakeOp::kRemove, "/d/b"},      {FakeOp::kSyncDirectory, "/d"}};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(disk.num_operations(), expected.size());
}

}  // namespace
}  // namespace sluice
