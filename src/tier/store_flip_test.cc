// SPDX-License-Identifier: Apache-2.0
// No single flipped bit in anything a store keeps goes unnoticed.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "tier/fake_store.h"
#include "tier/store_check.h"
#include "tier/store_format.h"

namespace sluice {
namespace {

struct Region {
  std::string path;
  std::uint64_t begin = 0;
  std::uint64_t size_bytes = 0;
};

// Everything that is stored: headers, both journals whole, every extent.
std::vector<Region> kept_regions(FakeStore& fake, const SliceStore& store) {
  std::vector<Region> regions;
  for (const std::string& directory : fake.directories) regions.push_back({directory + "/slices.dat", 0, kBlockBytes});
  for (const std::string& path : {fake.directories[0] + "/journal.a", fake.directories[1] + "/journal.b"}) {
    regions.push_back({path, 0, fake.disk.contents(path).size()});
  }
  for (const SliceRef& version : store.kept()) {
    for (const Extent& extent : version->record().extents) {
      regions.push_back({fake.directories[extent.drive_idx] + "/slices.dat", extent.offset, extent.size_bytes});
    }
  }
  return regions;
}

TEST(StoreFlip, TenThousandSingleBitFlipsAreAllDetectedAndNoneInAJournalLosesAnything) {
  FakeStore fake(2);
  auto store = SliceStore::create(fake.home(), FakeStore::shape(2));
  for (std::uint64_t i = 0; i < 4; ++i) put(*store, "s" + std::to_string(i), {i, 9000 + 7000 * i});
  store->commit("1");
  store->pin("kept");
  put(*store, "s1", {11, 12000});
  store->commit("2");
  const std::vector<Region> regions = kept_regions(fake, *store);
  const std::uint64_t kept_bytes = store->taken_bytes();
  store.reset();

  Random random(1);
  std::uint64_t num_journal_flips = 0;
  for (int i = 0; i < 10000; ++i) {
    const Region& region = regions[random.below(regions.size())];
    const std::uint64_t bit = region.begin * 8 + random.below(region.size_bytes * 8);
    fake.disk.flip_bit(region.path, bit);
    bool detected = false;
    std::uint64_t still_kept = 0;
    try {
      const StoreReport report = check_store(fake.home(), Repair::kNo, {});
      detected = !report.whole();
      still_kept = report.kept_bytes;
    } catch (const Error&) {
      detected = true;
    }
    EXPECT_TRUE(detected) << region.path << " bit " << bit;
    if (region.path.find("journal") != std::string::npos) {
      ++num_journal_flips;
      EXPECT_EQ(still_kept, kept_bytes) << region.path << " bit " << bit;
    }
    fake.disk.flip_bit(region.path, bit);
  }
  EXPECT_GT(num_journal_flips, 1000U);
  EXPECT_TRUE(check_store(fake.home(), Repair::kNo, {}).whole()) << "undamaged again";
}

TEST(StoreFlip, OpeningHealsADamagedJournalCopyAndKeepsTheLastCommit) {
  FakeStore fake(2);
  auto store = SliceStore::create(fake.home(), FakeStore::shape(2));
  Random random(2);
  for (std::uint64_t i = 1; i <= 200; ++i) {
    put(*store, "a", {i, 30000});
    store->commit(std::to_string(i));  // behind a base record: the store was just made or healed
    store.reset();
    const std::string path = i % 2 == 0 ? "/drive0/journal.a" : "/drive1/journal.b";
    fake.disk.flip_bit(path, random.below(fake.disk.contents(path).size() * 8));
    store = SliceStore::open(fake.home());
    EXPECT_EQ(store->last_note(), std::to_string(i));
    EXPECT_TRUE(holds(*store, "a", {i, 30000}));
    store.reset();
    EXPECT_TRUE(check_store(fake.home(), Repair::kNo, {}).findings.empty()) << "healed";
    store = SliceStore::open(fake.home());
  }
}

TEST(StoreFlip, DamageOfBothCopiesInTheMiddleIsRefusedNotForgotten) {
  FakeStore fake;
  auto store = SliceStore::create(fake.home(), FakeStore::shape(1));
  for (int i = 1; i <= 3; ++i) {
    put(*store, "a", {static_cast<std::uint64_t>(i), 30000});
    store->commit(std::to_string(i));
  }
  store.reset();
  // The second record of each copy: the first commit.
  fake.disk.flip_bit("/drive0/journal.a", (kBlockBytes + 200) * 8);
  fake.disk.flip_bit("/drive0/journal.b", (kBlockBytes + 300) * 8);
  EXPECT_THROW(SliceStore::open(fake.home()), FormatError);
}

}  // namespace
}  // namespace sluice
