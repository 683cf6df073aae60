// SPDX-License-Identifier: Apache-2.0
// What share of a new store each drive should hold.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "tier/slice_store.h"

namespace sluice {

// Several drives are measured, for about a second each, and hold shares that follow their speed; drives alike hold
// equal ones. Throws as SliceStore::create() does for directories that cannot serve.
StoreShape measured_shape(const StoreHome& home, const Clock& clock, std::uint64_t probe_bytes = 256 * 1024 * 1024);

}  // namespace sluice
