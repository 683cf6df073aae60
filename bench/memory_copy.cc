// SPDX-License-Identifier: Apache-2.0
#include "bench/memory_copy.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/clock.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::uint64_t kLineBytes = 64;

void copy_by_library(std::byte* to, const std::byte* from, std::uint64_t size_bytes) {
  std::memcpy(to, from, size_bytes);
}

void copy_past_caches(std::byte* to, const std::byte* from, std::uint64_t size_bytes) {
  std::uint64_t at = 0;
#if defined(__x86_64__)
  for (; at + kLineBytes <= size_bytes; at += kLineBytes) {
    const auto* line = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(target + i, _mm_loadu_si128(line + i));
  }
  _mm_sfence();
#endif
  std::memcpy(to + at, from + at, size_bytes - at);
}

template <typename Copy>
double seconds_of(WorkerTeam& team, std::span<std::byte> to, std::span<const std::byte> from, const Copy& copy) {
  const std::uint64_t share = round_up(div_ceil(from.size(), team.num_threads()), kLineBytes);
  const SteadyClock clock;
  const Stopwatch stopwatch(clock);
  team.for_each(static_cast<std::int64_t>(div_ceil(from.size(), share)), [&](std::int64_t item_idx, std::size_t) {
    const std::uint64_t first = static_cast<std::uint64_t>(item_idx) * share;
    copy(to.data() + first, from.data() + first, std::min<std::uint64_t>(share, from.size() - first));
  });
  return stopwatch.seconds();
}

}  // namespace

double measure_copy_seconds(WorkerTeam& team, std::span<std::byte> to, std::span<const std::byte> from) {
  return std::min(seconds_of(team, to, from, copy_by_library), seconds_of(team, to, from, copy_past_caches));
}

}  // namespace sluice
