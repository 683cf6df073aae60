// SPDX-License-Identifier: Apache-2.0
// How a blocked product is cut up. One operand, the longer, is `local`: each thread packs the part that it needs, while
// it needs it. The other is `shared`: packed once, by all threads, a stretch of rows at a time. Blocks of C are made to
// come out even over the threads; what one element is summed from, and in which order, depends on none of this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/gemm_kernel.h"

namespace sluice::cpu {

struct GemmPlan {
  bool local_is_rows = false;   // R is local, S is shared; or the other way round
  std::int64_t num_local = 0;   // rows of the local operand
  std::int64_t num_shared = 0;  // rows of the shared one
  std::int64_t stretch = 0;     // rows of the shared operand that are packed at once
  std::int64_t local_block = 0;
  std::int64_t shared_block = 0;

  std::uint64_t shared_bytes = 0;  // scratch of all
  std::uint64_t panel_bytes = 0;   // scratch of each thread: its part of the local operand,
  std::uint64_t sums_bytes = 0;    // and its sums
};

// The most that is packed at once for all threads, unless a single panel of the shared operand over all of k is larger.
inline constexpr std::uint64_t kMaxGemmSharedBytes = 32U << 20;

// num_k: of k, what is summed at once.
GemmPlan plan_gemm(const GemmKernel& kernel, const Gemm& args, std::int64_t num_k, std::size_t num_threads);

}  // namespace sluice::cpu
