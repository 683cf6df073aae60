// SPDX-License-Identifier: Apache-2.0
#include "base/page_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/units.h"

namespace sluice {
namespace {

std::size_t num_present(const PageMemory& memory) {
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present((memory.size_bytes() + page_bytes - 1) / page_bytes);
  EXPECT_EQ(::mincore(memory.bytes().data(), memory.size_bytes(), present.data()), 0);
  return static_cast<std::size_t>(
      std::count_if(present.begin(), present.end(), [](unsigned char page) { return (page & 1U) != 0; }));
}

TEST(PageMemory, PagesArriveWhenTouchedOrAllAtOnce) {
  const PageMemory memory(200 * kMiB + 4096);
  EXPECT_EQ(num_present(memory), 0U);
  memory.bytes()[100 * kMiB] = std::byte{7};
  EXPECT_LT(num_present(memory), memory.size_bytes() / 4096);
  memory.populate();
  EXPECT_EQ(num_present(memory), memory.size_bytes() / 4096);
  EXPECT_EQ(memory.bytes()[100 * kMiB], std::byte{7});
  EXPECT_EQ(std::count(memory.bytes().begin(), memory.bytes().end(), std::byte{0}),
            static_cast<std::ptrdiff_t>(memory.size_bytes()) - 1);
}

TEST(PageMemory, NothingIsPopulatedOfNothing) {
  const PageMemory memory;
  memory.populate();
  EXPECT_EQ(memory.size_bytes(), 0U);
}

}  // namespace
}  // namespace sluice
