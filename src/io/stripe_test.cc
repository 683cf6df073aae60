// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/page_memory.h"
#include "base/random.h"
#include "base/units.h"
#include "io/alignment.h"
#include "io/fake/fake_disk.h"
#include "io/stripe_pattern.h"
#include "io/stripe_set.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;
using Weights = std::vector<std::uint32_t>;

const std::vector<Weights> kManyWeights{{1}, {1, 1}, {2, 1}, {3, 1, 2}, {1, 16}, {5, 3, 1, 7}, {1000, 1, 999}};

TEST(StripePattern, EveryRoundServesEachDriveExactlyItsWeight) {
  for (const Weights& weights : kManyWeights) {
    const StripePattern pattern(weights);
    const std::uint64_t round = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
    for (std::uint64_t start = 0; start < 3 * round; start += round) {
      Weights counts(weights.size(), 0);
      for (std::uint64_t i = start; i < start + round; ++i) ++counts.at(pattern.place(i).drive_idx);
      EXPECT_EQ(counts, weights);
    }
  }
}

// A drive is at any time less than a chunk per other drive away from its fair part; whole runs at a time would not be.
TEST(StripePattern, ServesDrivesEvenlyWithinARound) {
  for (const Weights& weights : kManyWeights) {
    const StripePattern pattern(weights);
    const double round = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<double> counts(weights.size(), 0);
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(round); ++i) {
      ++counts[pattern.place(i).drive_idx];
      for (std::size_t drive = 0; drive < weights.size(); ++drive) {
        const double fair = static_cast<double>(i + 1) * weights[drive] / round;
        ASSERT_LT(std::abs(counts[drive] - fair), static_cast<double>(weights.size())) << "chunk " << i;
      }
    }
  }
}

// Stores on disk depend on these.
TEST(StripePattern, IsTheSameForEver) {
  const auto drives = [](const Weights& weights, std::uint64_t num_chunks) {
    const StripePattern pattern(weights);
    Weights order;
    for (std::uint64_t i = 0; i < num_chunks; ++i) order.push_back(pattern.place(i).drive_idx);
    return order;
  };
  EXPECT_EQ(drives({2, 1}, 6), (Weights{0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(drives({3, 1, 2}, 8), (Weights{0, 2, 0, 1, 2, 0, 0, 2}));
  EXPECT_EQ(drives({1, 1, 1}, 5), (Weights{0, 1, 2, 0, 1}));
}

TEST(StripePattern, PlacesAndCountsAgreeWithCountingOneByOne) {
  for (const Weights& weights : kManyWeights) {
    const StripePattern pattern(weights);
    std::vector<std::uint64_t> counts(weights.size(), 0);
    for (std::uint64_t i = 0; i < 5000; ++i) {
      for (std::uint32_t drive = 0; drive < weights.size(); ++drive) {
        if (weights.size() < 3 || i % 97 == 0) {
          ASSERT_EQ(pattern.chunks_on_drive(drive, i), counts[drive]) << i;
        }
      }
      const StripePattern::Place place = pattern.place(i);
      ASSERT_EQ(place.chunk_on_drive, counts.at(place.drive_idx)++) << i;
    }
  }
}

TEST(WeightsFromSpeeds, FollowTheSpeedsUnlessTheyHardlyDiffer) {
  EXPECT_EQ(weights_from_speeds({}), Weights{});
  EXPECT_EQ(weights_from_speeds({7.0}), Weights{1});
  EXPECT_EQ(weights_from_speeds({7.0, 6.5, 6.4}), (Weights{1, 1, 1}));
  EXPECT_EQ(weights_from_speeds({7.0, 3.5}), (Weights{16, 8}));
  EXPECT_EQ(weights_from_speeds({1.0, 8.0, 4.0}), (Weights{2, 16, 8}));
  EXPECT_EQ(weights_from_speeds({0.001, 10.0}), (Weights{1, 16}));
  EXPECT_EQ(weights_from_speeds({0.0, 10.0}), (Weights{1, 16}));
  EXPECT_EQ(weights_from_speeds({0.0, 0.0}), (Weights{1, 1}));
}

constexpr std::uint64_t kBlock = kIoAlignment;
constexpr std::uint64_t kChunk = 3 * kBlock;
constexpr std::uint64_t kDriveBlocks = 400;
constexpr std::uint32_t kRound[] = {0, 2, 0, 1, 2, 0};  // the pattern of weights 3, 1, 2, worked out by hand

// Weights 3, 1, 2 on three drives whose files are full of their own noise.
class StripeSetTest : public testing::Test {
 protected:
  StripeSetTest() {
    for (std::uint32_t i = 0; i < 3; ++i) {
      files_.push_back(disk_.open(path(i), OpenMode::kCreate, Caching::kDirect));
      const PageMemory noise(kDriveBlocks * kBlock);
      Random(i).fill(noise.bytes());
      engine_.submit(IoRequest::write(*files_.back(), 0, noise.bytes())).wait();
      drives_.emplace_back(noise.bytes().begin(), noise.bytes().end());
    }
  }

  static std::string path(std::uint32_t drive_idx) { return "/drive" + std::to_string(drive_idx) + "/data"; }

  StripeSet stripes() {
    return {engine_, {files_[0].get(), files_[1].get(), files_[2].get()}, StripePattern({3, 1, 2}), kChunk};
  }

  // Cuts each drive's share into random extents at random places, and mixes the drives' lists.
  std::vector<Extent> fragmented(const std::vector<std::uint64_t>& shares, Random& random) {
    std::vector<std::vector<Extent>> lists(3);
    for (std::uint32_t drive = 0; drive < 3; ++drive) {
      std::vector<std::uint64_t> blocks(kDriveBlocks);
      std::iota(blocks.begin(), blocks.end(), 0);
      for (std::size_t i = blocks.size(); i > 1; --i) std::swap(blocks[i - 1], blocks[random.below(i)]);
      // Taken in runs that go up block by block where chance put them so, else one block an extent.
      for (std::uint64_t done = 0; done < shares[drive] / kBlock; ++done) {
        const std::uint64_t offset = blocks[done] * kBlock;
        std::vector<Extent>& list = lists[drive];
        if (!list.empty() && list.back().offset + list.back().size_bytes == offset) {
          list.back().size_bytes += kBlock;
        } else {
          list.push_back({drive, offset, kBlock});
        }
      }
    }
    return mixed(lists, random);
  }
  // Large extents that lie apart: the first half of each share behind the second.
  static std::vector<Extent> halves(const std::vector<std::uint64_t>& shares, Random& random) {
    std::vector<std::vector<Extent>> lists(3);
    for (std::uint32_t drive = 0; drive < 3; ++drive) {
      const std::uint64_t first = round_up(shares[drive] / 2, kBlock);
      if (first > 0) lists[drive].push_back({drive, 200 * kBlock, first});
      if (shares[drive] > first) lists[drive].push_back({drive, 5 * kBlock, shares[drive] - first});
    }
    return mixed(lists, random);
  }
  static std::vector<Extent> mixed(std::vector<std::vector<Extent>>& lists, Random& random) {
    std::vector<Extent> extents;
    while (std::any_of(lists.begin(), lists.end(), [](const auto& list) { return !list.empty(); })) {
      std::vector<Extent>& list = lists[random.below(lists.size())];
      if (list.empty()) continue;
      extents.push_back(list.front());
      list.erase(list.begin());
    }
    return extents;
  }

  // What the drives should hold, found block by block: the drives take turns in chunks, each lays its blocks into its
  // extents in order.
  struct Home {
    std::uint32_t drive_idx = 0;
    std::uint64_t offset = 0;
  };
  static std::vector<Home> homes(std::uint64_t run_bytes, const StripeRun& run) {
    std::vector<std::vector<std::uint64_t>> free_blocks(3);
    for (const Extent& extent : run.extents) {
      for (std::uint64_t i = 0; i < extent.size_bytes; i += kBlock) {
        free_blocks[extent.drive_idx].push_back(extent.offset + i);
      }
    }
    std::vector<std::uint64_t> num_used(3, 0);
    std::vector<Home> found;
    for (std::uint64_t at = 0; at < run_bytes; at += kBlock) {
      const std::uint32_t drive = kRound[(run.first_chunk + at / kChunk) % 6];
      found.push_back({drive, free_blocks[drive].at(num_used[drive]++)});
    }
    for (std::size_t drive = 0; drive < 3; ++drive) EXPECT_EQ(num_used[drive], free_blocks[drive].size());
    return found;
  }

  void expect_round_trip(std::uint64_t run_bytes, const StripeRun& run, Random& random) {
    const StripeSet set = stripes();
    const std::vector<Home> blocks = homes(run_bytes, run);
    const PageMemory memory(blocks.size() * kBlock);
    random.fill(memory.bytes());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto block = memory.bytes().subspan(i * kBlock, kBlock);
      std::copy(block.begin(), block.end(),
                drives_[blocks[i].drive_idx].begin() + static_cast<std::ptrdiff_t>(blocks[i].offset));
    }
    set.write(run, 0, memory.bytes()).wait();
    for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(disk_.contents(path(i)) == drives_[i]) << "drive " << i;

    // A part of it back: from a chunk's beginning, to any block.
    const std::uint64_t offset = random.below(div_ceil(memory.size_bytes(), kChunk)) * kChunk;
    const PageMemory part((1 + random.below((memory.size_bytes() - offset) / kBlock)) * kBlock);
    set.read(run, offset, part.bytes()).wait();
    ASSERT_TRUE(std::equal(part.bytes().begin(), part.bytes().end(),
                           memory.bytes().begin() + static_cast<std::ptrdiff_t>(offset)));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::uint64_t within = random.below(kBlock);
      const Extent place = set.locate(run, i * kBlock + within);
      ASSERT_EQ(place.drive_idx, blocks[i].drive_idx);
      ASSERT_EQ(place.offset, blocks[i].offset + within);
    }
  }

  FakeDisk disk_;
  FakeEngine engine_{disk_};
  std::vector<std::unique_ptr<File>> files_;
  std::vector<Bytes> drives_;
};

TEST_F(StripeSetTest, SharesAreWhatTheDrivesGetBlockByBlock) {
  const StripeSet set = stripes();
  for (std::uint64_t first_chunk = 0; first_chunk < 14; ++first_chunk) {
    for (std::uint64_t run_bytes = 0; run_bytes < 14 * kChunk; run_bytes += 1111) {
      std::vector<std::uint64_t> expected(3, 0);
      for (std::uint64_t at = 0; at < run_bytes; at += kBlock) {
        expected[kRound[(first_chunk + at / kChunk) % 6]] += kBlock;
      }
      EXPECT_EQ(set.shares(run_bytes, first_chunk), expected) << run_bytes << " bytes from chunk " << first_chunk;
    }
  }
}

TEST_F(StripeSetTest, RunsOfAnySizeRoundTripThroughFragmentedExtents) {
  Random random(1);
  std::vector<std::uint64_t> sizes{1, kBlock, kChunk - 1, kChunk, kChunk + 1, 6 * kChunk, 6 * kChunk + 4097};
  for (int i = 0; i < 15; ++i) sizes.push_back(1 + random.below(700 * kBlock));
  for (const std::uint64_t run_bytes : sizes) {
    SCOPED_TRACE(run_bytes);
    const std::uint64_t first_chunk = random.below(20);
    const std::vector<std::uint64_t> shares = stripes().shares(run_bytes, first_chunk);
    expect_round_trip(run_bytes, {fragmented(shares, random), first_chunk}, random);
    expect_round_trip(run_bytes, {halves(shares, random), first_chunk}, random);
    if (HasFatalFailure()) return;
  }
}

TEST_F(StripeSetTest, AdjoiningChunksTravelAsOneRequest) {
  const StripeSet set(engine_, {files_[0].get()}, StripePattern({1}), kChunk);
  const PageMemory run(10 * kChunk);
  const std::uint64_t before = disk_.num_operations();
  set.write(std::vector<Extent>{{0, 0, 4 * kChunk}, {0, 4 * kChunk, kChunk}, {0, 20 * kChunk, 5 * kChunk}}, 0,
            run.bytes())
      .wait();
  EXPECT_EQ(disk_.num_operations() - before, 2U);
}

TEST_F(StripeSetTest, SyncMakesEveryDriveSurviveAPowerCut) {
  const StripeSet set = stripes();
  for (std::uint32_t i = 0; i < 3; ++i) disk_.sync_directory("/drive" + std::to_string(i));
  Random random(2);
  const std::uint64_t run_bytes = 60 * kChunk;
  const std::vector<Extent> extents = fragmented(set.shares(run_bytes), random);
  expect_round_trip(run_bytes, extents, random);
  set.sync().wait();
  disk_.set_hook([](const FakeOperation&) { return Fault::kPowerCut; });
  EXPECT_THROW(set.sync().wait(), PowerCut);
  disk_.reboot(3);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(disk_.contents(path(i)) == drives_[i]) << "drive " << i;
}

}  // namespace
}  // namespace sluice
