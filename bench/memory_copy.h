// SPDX-License-Identifier: Apache-2.0
// How fast memory is copied, as a bound for what is limited by memory alone: the faster of what the C library does and
// stores that pass by the caches, which do not read what they overwrite.
#pragma once

#include <cstddef>
#include <span>

#include "base/worker_team.h"

namespace sluice {

// Each thread copies one run. The spans are of one size, large enough to leave the caches, and aligned to 64 bytes.
double measure_copy_seconds(WorkerTeam& team, std::span<std::byte> to, std::span<const std::byte> from);

}  // namespace sluice
