// SPDX-License-Identifier: Apache-2.0
// Upper bounds of a step's shape, shared by configurations, data, plans and documentation.
#pragma once

#include <cstdint>

namespace sluice {

inline constexpr std::uint64_t kMinSequenceLen = 2;  // an input token and its label
inline constexpr std::uint64_t kMaxSequenceLen = std::uint64_t{1} << 24;
inline constexpr std::uint64_t kMaxMicroBatchSize = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxAccumulation = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kMaxBatchTokens = std::uint64_t{1} << 32;  // sequence_len times micro_batch_size

}  // namespace sluice
