// SPDX-License-Identifier: Apache-2.0
// XXH3 over bytes: the checksum of everything we store. Stable across machines; not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

std::uint64_t xxh3(std::span<const std::byte> bytes);

}  // namespace sluice
