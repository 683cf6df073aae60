// SPDX-License-Identifier: Apache-2.0
// A copy for slices on their way: large copies go past the caches (non-temporal stores), which saves reading the
// destination from memory first and leaves the caches to whoever computes.
#pragma once

#include <cstddef>
#include <span>

namespace sluice {

// Both of one size; they do not overlap.
void streaming_copy(std::span<std::byte> to, std::span<const std::byte> from);

}  // namespace sluice
