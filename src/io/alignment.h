// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sluice {

// What O_DIRECT asks of offsets, sizes and addresses on every drive we know (512 or 4096).
inline constexpr std::uint64_t kIoAlignment = 4096;

}  // namespace sluice
