// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/streaming_copy.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/units.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sluice {
namespace {

// Below this a copy is likely to be read again soon: it goes through the caches.
constexpr std::size_t kMinStreamedBytes = 256 * kKiB;
constexpr std::size_t kLineBytes = 64;

}  // namespace

void streaming_copy(std::span<std::byte> to, std::span<const std::byte> from) {
  CHECK(to.size() == from.size(), "a copy has two ends of one size");
  std::size_t done = 0;
#if defined(__SSE2__)
  if (to.size() >= kMinStreamedBytes && is_aligned(reinterpret_cast<std::uintptr_t>(to.data()), kLineBytes)) {
    for (; done + kLineBytes <= to.size(); done += kLineBytes) {
      const auto* const source = reinterpret_cast<const __m128i*>(from.data() + done);
      auto* const target = reinterpret_cast<__m128i*>(to.data() + done);
      const __m128i a = _mm_loadu_si128(source);
      const __m128i b = _mm_loadu_si128(source + 1);
      const __m128i c = _mm_loadu_si128(source + 2);
      const __m128i d = _mm_loadu_si128(source + 3);
      _mm_stream_si128(target, a);
      _mm_stream_si128(target + 1, b);
      _mm_stream_si128(target + 2, c);
      _mm_stream_si128(target + 3, d);
    }
    _mm_sfence();  // what follows, on any thread, sees the bytes
  }
#endif
  if (done < to.size()) std::memcpy(to.data() + done, from.data() + done, to.size() - done);
}

}  // namespace sluice
