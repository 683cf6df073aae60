// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/random.h"

namespace sluice {
namespace {

// From Vigna's splitmix64.c with x = 0.
constexpr std::array<std::uint64_t, 4> kReference{0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F,
                                                  0xF88BB8A8724C81EC};

TEST(Random, IsSplitMix64) {
  Random random(0);
  for (const std::uint64_t expected : kReference) EXPECT_EQ(random.next(), expected);
}

TEST(Random, BelowStaysBelowAndReachesEverything) {
  Random random(7);
  std::array<int, 10> counts{};
  for (int i = 0; i < 1000; ++i) ++counts.at(random.below(counts.size()));
  for (const int count : counts) EXPECT_GT(count, 50);
}

TEST(Random, FillWritesTheNumbersInOrderAndNothingBeyond) {
  for (std::size_t size = 0; size <= 32; ++size) {
    std::vector<std::byte> bytes(40, std::byte{0x55});
    Random(0).fill(std::span(bytes).first(size));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto expected = i < size ? static_cast<std::byte>(kReference[i / 8] >> (8 * (i % 8))) : std::byte{0x55};
      EXPECT_EQ(bytes[i], expected) << "byte " << i << " of " << size;
    }
  }
}

TEST(RandomIdentity, DiffersFromCallToCall) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 64; ++i) seen.insert(random_identity());
  EXPECT_EQ(seen.size(), 64U);
}

// The values come from Debian's shared libxxhash 0.8.1, which the code under test does not use; the lengths take
// different paths through XXH3.
TEST(Xxh3, GivesTheReferenceValues) {
  const auto hash_of = [](std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i % 251);
    return xxh3(bytes);
  };
  EXPECT_EQ(hash_of(0), 0x2D06800538D394C2U);
  EXPECT_EQ(hash_of(1), 0xC44BDFF4074EECDBU);
  EXPECT_EQ(hash_of(100), 0x004E4F921A64BD1CU);
  EXPECT_EQ(hash_of(1000), 0x33EF703FB2B20ED1U);
}

}  // namespace
}  // namespace sluice
