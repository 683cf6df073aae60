// SPDX-License-Identifier: Apache-2.0
// Registry of all kernel launches of the plug-in: threads per block and shared memory. launch.cuh fills it at compile
// time from the launches themselves, and tests/kernel_limits_test.py checks it against the limits of every card, on a
// machine without one.
#pragma once

#include <limits>
#include <vector>

namespace sluice::cuda {

// Shared memory per block on the cards with the least: compute capability 8.6, 8.9 and 12.0.
inline constexpr int kLeastSharedBytes = 101'376;

// A range of cards by shared memory per block: [least_bytes, below_bytes).
struct CardRange {
  int least_bytes = 0;
  int below_bytes = std::numeric_limits<int>::max();

  constexpr bool holds(int shared_bytes) const { return least_bytes <= shared_bytes && shared_bytes < below_bytes; }
};

struct KernelLaunch {
  const void* kernel = nullptr;  // its host stub
  int num_threads = 0;           // per block
  int most_dynamic_bytes = 0;    // dynamic shared memory, beside the kernel's static part
  CardRange cards;               // cards on which it is launched
};

// Complete before main(), constant afterwards.
const std::vector<KernelLaunch>& kernel_launches();

// Registers a launch from a static object's constructor.
class ListedLaunch {
 public:
  explicit ListedLaunch(const KernelLaunch& launch);
};

}  // namespace sluice::cuda
