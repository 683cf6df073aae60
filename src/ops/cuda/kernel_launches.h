// SPDX-License-Identifier: Apache-2.0
// Every way in which the plug-in launches a kernel: how many threads a block has, and how much shared memory it asks
// for. launch.cuh writes the list as it is compiled, so that it cannot differ from what is launched, and
// tests/kernel_limits_test.py holds it against the limits of every card, on a machine without one.
#pragma once

#include <limits>
#include <vector>

namespace sluice::cuda {

// The most shared memory that a block may have on the cards with the least: 8.6, 8.9 and 12.0.
inline constexpr int kLeastSharedBytes = 101'376;

// Cards by the shared memory that a block may have there: [least_bytes, below_bytes).
struct CardRange {
  int least_bytes = 0;
  int below_bytes = std::numeric_limits<int>::max();

  constexpr bool holds(int shared_bytes) const { return least_bytes <= shared_bytes && shared_bytes < below_bytes; }
};

struct KernelLaunch {
  const void* kernel = nullptr;  // the function on the host that stands for it
  int num_threads = 0;           // of a block
  int most_dynamic_bytes = 0;    // of shared memory, beside what the kernel has of its own
  CardRange cards;               // where it is launched
};

// Made before main() and not changed afterwards.
const std::vector<KernelLaunch>& kernel_launches();

// Adds a launch to the list as a static object is made.
class ListedLaunch {
 public:
  explicit ListedLaunch(const KernelLaunch& launch);
};

}  // namespace sluice::cuda
