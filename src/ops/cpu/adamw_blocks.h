// SPDX-License-Identifier: Apache-2.0
// AdamW with 8-bit moments: a block's moments are made floats in the cache, updated, and made codes again.
#pragma once

#include <cstddef>

#include "ops/adamw.h"
#include "ops/adamw_factors.h"

namespace sluice::cpu {

// Elements [first, first + count), where first begins a block.
void adamw_blocks(const AdamW& args, const AdamWFactors& with, std::size_t first, std::size_t count);

}  // namespace sluice::cpu
