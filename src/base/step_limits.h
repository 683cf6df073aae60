// SPDX-License-Identifier: Apache-2.0
// The largest step that can be asked for. One home, so that configurations, data, plans and the documentation agree.
#pragma once

#include <cstdint>

namespace sluice {

inline constexpr std::uint64_t kMinSequenceLen = 2;  // a token and the one that it predicts
inline constexpr std::uint64_t kMaxSequenceLen = std::uint64_t{1} << 24;
inline constexpr std::uint64_t kMaxMicroBatchSize = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxAccumulation = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kMaxBatchTokens = std::uint64_t{1} << 32;  // sequence_len times micro_batch_size

}  // namespace sluice
