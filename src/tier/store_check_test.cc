// SPDX-License-Identifier: Apache-2.0
#include "tier/store_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"
#include "tier/fake_store.h"

namespace sluice {
namespace {

using testing::HasSubstr;

std::unique_ptr<SliceStore> filled(FakeStore& fake) {
  auto store = SliceStore::create(fake.home(), FakeStore::shape(fake.directories.size()));
  for (std::uint64_t i = 0; i < 5; ++i) put(*store, "s" + std::to_string(i), {i, 20000});
  store->commit("filled");
  return store;
}

TEST(StoreCheck, AWholeStoreIsReportedWithItsFigures) {
  FakeStore fake(2);
  filled(fake).reset();
  const std::vector<std::byte> before = fake.disk.contents("/drive0/journal.a");
  const StoreReport report = check_store(fake.home(), Repair::kNo, {});
  EXPECT_TRUE(report.whole());
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(report.num_slices, 5U);
  EXPECT_EQ(report.verified_bytes, report.kept_bytes);
  EXPECT_EQ(report.verified_bytes, 5 * round_up(20000, kBlockBytes));
  EXPECT_EQ(report.note, "filled");
  EXPECT_EQ(fake.disk.contents("/drive0/journal.a"), before);
}

TEST(StoreCheck, ADamagedSliceIsNamedAndNeverDropped) {
  FakeStore fake;
  auto store = filled(fake);
  const Extent extent = store->find("s3")->record().extents[0];
  store.reset();
  fake.disk.flip_bit("/drive0/slices.dat", (extent.offset + 5) * 8);
  const StoreReport report = check_store(fake.home(), Repair::kYes, {});
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_THAT(report.findings[0].text, HasSubstr("'s3'"));
  EXPECT_FALSE(report.whole());
  store = SliceStore::open(fake.home());
  EXPECT_EQ(store->committed().size(), 5U);
}

TEST(StoreCheck, ADamagedHeaderIsWrittenAnewFromTheJournal) {
  for (const std::string path : {"/drive0/slices.dat", "/drive1/slices.dat"}) {
    for (const std::uint64_t bit : {3ULL, 8 * 70ULL, 8 * 4000ULL}) {  // in the magic, in the fields, in the padding
      FakeStore fake(2);
      filled(fake).reset();
      fake.disk.flip_bit(path, bit);
      EXPECT_THROW(SliceStore::open(fake.home()), Error);
      EXPECT_FALSE(check_store(fake.home(), Repair::kNo, {}).whole());
      EXPECT_THROW(SliceStore::open(fake.home()), Error) << "nothing is repaired unasked";
      EXPECT_TRUE(check_store(fake.home(), Repair::kYes, {}).whole());
      EXPECT_TRUE(holds(*SliceStore::open(fake.home()), "s4", {4, 20000}));
    }
  }
}

TEST(StoreCheck, LeftoversOfACrashAreOrphansAndForeignFilesAreLeftAlone) {
  FakeStore fake;
  filled(fake).reset();
  static_cast<void>(fake.disk.open("/drive0/journal.a.new", OpenMode::kCreate, Caching::kPageCache));
  static_cast<void>(fake.disk.open("/drive0/thesis.doc", OpenMode::kCreate, Caching::kPageCache));
  EXPECT_EQ(check_store(fake.home(), Repair::kNo, {}).findings.size(), 2U);
  EXPECT_TRUE(fake.disk.exists("/drive0/journal.a.new"));
  EXPECT_TRUE(check_store(fake.home(), Repair::kYes, {}).whole());
  EXPECT_FALSE(fake.disk.exists("/drive0/journal.a.new"));
  EXPECT_TRUE(fake.disk.exists("/drive0/thesis.doc"));
}

TEST(StoreCheck, ATruncatedDataFileIsRefused) {
  FakeStore fake;
  filled(fake).reset();
  fake.disk.open("/drive0/slices.dat", OpenMode::kReadWrite, Caching::kDirect)->truncate(kDataStart + 8192);
  EXPECT_THROW(check_store(fake.home(), Repair::kNo, {}), FormatError);
}

TEST(StoreCheck, AnInterruptedCheckChangesNothing) {
  FakeStore fake;
  filled(fake).reset();
  ProgressSink progress;
  progress.interrupted = [] { return true; };
  EXPECT_THROW(check_store(fake.home(), Repair::kYes, progress), Cancelled);
}

}  // namespace
}  // namespace sluice
