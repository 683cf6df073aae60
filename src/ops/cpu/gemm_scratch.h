// SPDX-License-Identifier: Apache-2.0
// Memory that a product works in. It belongs to the calling thread, which finds it again for its next product: fresh
// pages would cost as much as a small product does. Holds what was asked for last or more; the content is anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::cpu {

// Valid until this thread calls again. Throws OutOfBudget where the system has no more.
std::span<std::byte> gemm_scratch(std::uint64_t size_bytes);

}  // namespace sluice::cpu
