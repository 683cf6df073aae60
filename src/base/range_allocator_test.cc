// SPDX-License-Identifier: Apache-2.0
#include "base/range_allocator.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace sluice {
namespace {

constexpr std::uint64_t kGranule = 4096;

// What the allocator should know, held as one flag a granule.
class Model {
 public:
  explicit Model(std::uint64_t num_granules) : taken_(num_granules, false) {}

  std::vector<Range> holes() const {
    std::vector<Range> found;
    for (std::uint64_t i = 0; i < taken_.size(); ++i) {
      if (taken_[i]) continue;
      if (i > 0 && !taken_[i - 1]) {
        found.back().size += kGranule;
      } else {
        found.push_back({i * kGranule, kGranule});
      }
    }
    return found;
  }
  // The size of the hole that begins there, 0 if none does.
  std::uint64_t hole_at(std::uint64_t offset) const {
    for (const Range& hole : holes()) {
      if (hole.offset == offset) return hole.size;
    }
    return 0;
  }
  std::uint64_t smallest_hole(std::uint64_t at_least) const {
    std::uint64_t smallest = 0;
    for (const Range& hole : holes()) {
      if (hole.size >= at_least && (smallest == 0 || hole.size < smallest)) smallest = hole.size;
    }
    return smallest;
  }
  std::uint64_t largest_hole() const {
    std::uint64_t largest = 0;
    for (const Range& hole : holes()) largest = std::max(largest, hole.size);
    return largest;
  }
  std::uint64_t free_bytes() const {
    return static_cast<std::uint64_t>(std::count(taken_.begin(), taken_.end(), false)) * kGranule;
  }
  std::uint64_t tail_bytes() const {
    const auto last_taken = std::find(taken_.rbegin(), taken_.rend(), true);
    return static_cast<std::uint64_t>(last_taken - taken_.rbegin()) * kGranule;
  }
  std::uint64_t size() const { return taken_.size() * kGranule; }

  bool all_free(Range range) const {
    if (range.end() > size()) return false;
    return std::none_of(at(range.offset), at(range.end()), [](bool taken) { return taken; });
  }
  void mark(Range range, bool taken) { std::fill(at(range.offset), at(range.end()), taken); }
  void resize(std::uint64_t new_size) { taken_.resize(new_size / kGranule, false); }

 private:
  std::vector<bool>::iterator at(std::uint64_t offset) {
    return taken_.begin() + static_cast<std::ptrdiff_t>(offset / kGranule);
  }
  std::vector<bool>::const_iterator at(std::uint64_t offset) const {
    return taken_.begin() + static_cast<std::ptrdiff_t>(offset / kGranule);
  }

  std::vector<bool> taken_;
};

class RangeAllocatorAgainstModel : public testing::TestWithParam<std::uint64_t> {
 protected:
  static constexpr std::uint64_t kStartGranules = 200;

  void take() {
    const std::uint64_t num_granules = random_.below(20) + 1;
    const std::uint64_t asked = num_granules * kGranule - random_.below(kGranule);
    const std::uint64_t best = model_.smallest_hole(num_granules * kGranule);
    const std::optional<Range> taken = allocator_.take(asked);
    ASSERT_EQ(taken.has_value(), best > 0);
    if (!taken) return;
    ASSERT_EQ(taken->size, num_granules * kGranule);
    ASSERT_EQ(model_.hole_at(taken->offset), best);
    keep(*taken);
  }

  void take_largest() {
    const std::uint64_t num_granules = random_.below(60) + 1;
    const std::uint64_t largest = model_.largest_hole();
    const std::optional<Range> taken = allocator_.take_largest(num_granules * kGranule - random_.below(kGranule));
    ASSERT_EQ(taken.has_value(), largest > 0);
    if (!taken) return;
    ASSERT_EQ(taken->size, std::min(largest, num_granules * kGranule));
    ASSERT_EQ(model_.hole_at(taken->offset), largest);
    keep(*taken);
  }

  void take_exactly() {
    const Range range{random_.below(model_.size() / kGranule + 4) * kGranule, (random_.below(8) + 1) * kGranule};
    const bool possible = model_.all_free(range);
    ASSERT_EQ(allocator_.take_exactly(range), possible);
    if (possible) keep(range);
  }

  // The whole of a taken range, or a piece from anywhere in it.
  void release() {
    if (held_.empty()) return;
    const std::size_t held_idx = random_.below(held_.size());
    const Range whole = held_[held_idx];
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(held_idx));
    Range piece = whole;
    if (random_.one_in(2)) {
      piece.offset += random_.below(whole.size / kGranule) * kGranule;
      piece.size = (random_.below((whole.end() - piece.offset) / kGranule) + 1) * kGranule;
    }
    allocator_.release(piece);
    model_.mark(piece, false);
    if (piece.offset > whole.offset) held_.push_back({whole.offset, piece.offset - whole.offset});
    if (piece.end() < whole.end()) held_.push_back({piece.end(), whole.end() - piece.end()});
  }

  void resize() {
    if (random_.one_in(2)) {
      const std::uint64_t new_size = model_.size() + random_.below(10) * kGranule;
      if (new_size > 2 * kStartGranules * kGranule) return;
      allocator_.grow(new_size + random_.below(kGranule));  // a part granule is of no use
      model_.resize(new_size);
    } else {
      const std::uint64_t new_size = model_.size() - random_.below(model_.tail_bytes() / kGranule + 1) * kGranule;
      allocator_.shrink(new_size);
      model_.resize(new_size);
    }
  }

  void keep(Range range) {
    ASSERT_TRUE(model_.all_free(range));
    model_.mark(range, true);
    held_.push_back(range);
  }

  Random random_{GetParam()};
  RangeAllocator allocator_{kStartGranules * kGranule, kGranule};
  Model model_{kStartGranules};
  std::vector<Range> held_;
};

TEST_P(RangeAllocatorAgainstModel, EveryAnswerIsThatOfAVectorOfFlags) {
  for (int step = 0; step < 20000; ++step) {
    SCOPED_TRACE(step);
    const std::uint64_t dice = random_.below(100);
    if (dice < 30) {
      take();
    } else if (dice < 38) {
      take_largest();
    } else if (dice < 50) {
      take_exactly();
    } else if (dice < 95) {
      release();
    } else {
      resize();
    }
    if (HasFatalFailure()) return;
    ASSERT_EQ(allocator_.size(), model_.size());
    ASSERT_EQ(allocator_.free_bytes(), model_.free_bytes());
    ASSERT_EQ(allocator_.largest_free_bytes(), model_.largest_hole());
    ASSERT_EQ(allocator_.free_tail_bytes(), model_.tail_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RangeAllocatorAgainstModel, testing::Values(1, 2, 3));

TEST(RangeAllocator, NeighboursCoalesceWhateverTheOrderOfRelease) {
  std::vector<std::uint64_t> order{0, 1, 2, 3};
  do {
    RangeAllocator allocator(4 * kGranule, kGranule);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(allocator.take(kGranule));
    ASSERT_FALSE(allocator.take(1));
    for (const std::uint64_t i : order) allocator.release({i * kGranule, kGranule});
    EXPECT_EQ(allocator.take(4 * kGranule), (Range{0, 4 * kGranule}));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(RangeAllocator, TakeExactlyRefusesOverlapAndWhatLiesOutside) {
  RangeAllocator allocator(8 * kGranule, kGranule);
  ASSERT_TRUE(allocator.take_exactly({3 * kGranule, 2 * kGranule}));
  EXPECT_FALSE(allocator.take_exactly({3 * kGranule, 2 * kGranule}));  // the same again
  EXPECT_FALSE(allocator.take_exactly({2 * kGranule, 2 * kGranule}));  // its beginning
  EXPECT_FALSE(allocator.take_exactly({4 * kGranule, 2 * kGranule}));  // its end
  EXPECT_FALSE(allocator.take_exactly({2 * kGranule, 4 * kGranule}));  // all of it and more
  EXPECT_FALSE(allocator.take_exactly({7 * kGranule, 2 * kGranule}));  // beyond the end
  EXPECT_FALSE(allocator.take_exactly({9 * kGranule, kGranule}));
  EXPECT_FALSE(allocator.take_exactly({0, 0}));
  constexpr std::uint64_t kLastGranule = std::numeric_limits<std::uint64_t>::max() - kGranule + 1;
  EXPECT_FALSE(allocator.take_exactly({kLastGranule, 2 * kGranule}));  // wraps round
  EXPECT_FALSE(allocator.take_exactly({5 * kGranule, kLastGranule}));
  EXPECT_EQ(allocator.free_bytes(), 6 * kGranule);
  EXPECT_TRUE(allocator.take_exactly({5 * kGranule, 3 * kGranule}));
  EXPECT_TRUE(allocator.take_exactly({0, 3 * kGranule}));
  EXPECT_EQ(allocator.free_bytes(), 0U);
}

TEST(RangeAllocator, SizesThatOverflowWhenRoundedAreNotTakenForSmall) {
  constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
  RangeAllocator allocator(8 * kGranule, kGranule);
  EXPECT_FALSE(allocator.take(kTop));
  EXPECT_EQ(allocator.take_largest(kTop), (Range{0, 8 * kGranule}));
}

TEST(RangeAllocator, ShrinkCutsTheFreeTailAndGrowGivesItBack) {
  RangeAllocator allocator(8 * kGranule, kGranule);
  ASSERT_TRUE(allocator.take_exactly({2 * kGranule, kGranule}));
  EXPECT_EQ(allocator.free_tail_bytes(), 5 * kGranule);
  allocator.shrink(4 * kGranule + 1);  // rounds up: nothing asked for is cut
  EXPECT_EQ(allocator.size(), 5 * kGranule);
  EXPECT_EQ(allocator.free_tail_bytes(), 2 * kGranule);
  EXPECT_FALSE(allocator.take(3 * kGranule));
  allocator.shrink(3 * kGranule);
  EXPECT_EQ(allocator.free_tail_bytes(), 0U);
  allocator.grow(6 * kGranule);
  EXPECT_EQ(allocator.take(3 * kGranule), (Range{3 * kGranule, 3 * kGranule}));
  EXPECT_EQ(allocator.free_bytes(), 2 * kGranule);
}

TEST(RangeAllocatorDeathTest, ReleasingTwiceAndCuttingOffWhatIsTakenAreBugs) {
  RangeAllocator allocator(8 * kGranule, kGranule);
  ASSERT_TRUE(allocator.take_exactly({4 * kGranule, 2 * kGranule}));
  EXPECT_DEATH(allocator.release({3 * kGranule, 2 * kGranule}), "released once");
  EXPECT_DEATH(allocator.release({5 * kGranule, 2 * kGranule}), "released once");
  EXPECT_DEATH(allocator.shrink(5 * kGranule), "is free");
}

}  // namespace
}  // namespace sluice
