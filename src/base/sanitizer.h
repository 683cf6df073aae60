// SPDX-License-Identifier: Apache-2.0
// Whether this build watches itself, which makes minutes of what takes seconds: tests cut down their cases by it.
#pragma once

namespace sluice {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace sluice
