// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

// Inlined: Debian's shared library is built without the vector code that this gives.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {

std::uint64_t xxh3(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace sluice
