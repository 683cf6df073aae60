// SPDX-License-Identifier: Apache-2.0
#include "bench/gemm_peak.h"

// gcc 12 takes the undefined vectors inside its own intrinsics for mistakes (gcc bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <barrier>
#include <cstdint>

#include "base/check.h"
#include "base/clock.h"

namespace sluice {
namespace {

// Each loop keeps so many independent sums that none waits for the one before it. It returns the operations done.
// An empty asm that claims to change a sum keeps the compiler from folding the loop; loops over the sums are unrolled,
// or the sums would live in memory.

__attribute__((target("sse2"))) double loop_baseline(std::int64_t num_rounds) {
  constexpr int kSums = 12;
  __m128 sums[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) sums[i] = _mm_setzero_ps();
  const __m128 value = _mm_set1_ps(1.0F);
  for (std::int64_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm_add_ps(sums[i], _mm_mul_ps(value, value));
      asm volatile("" : "+x"(sums[i]));
    }
  }
  return static_cast<double>(num_rounds) * kSums * 4 * 2;
}

__attribute__((target("avx2,fma"))) double loop_avx2(std::int64_t num_rounds) {
  constexpr int kSums = 12;
  __m256 sums[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_setzero_ps();
  const __m256 value = _mm256_set1_ps(1.0F);
  for (std::int64_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm256_fmadd_ps(value, value, sums[i]);
      asm volatile("" : "+x"(sums[i]));
    }
  }
  return static_cast<double>(num_rounds) * kSums * 8 * 2;
}

__attribute__((target("avx512f"))) double loop_avx512(std::int64_t num_rounds) {
  constexpr int kSums = 24;
  __m512 sums[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_setzero_ps();
  const __m512 value = _mm512_set1_ps(1.0F);
  for (std::int64_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm512_fmadd_ps(value, value, sums[i]);
      asm volatile("" : "+v"(sums[i]));
    }
  }
  return static_cast<double>(num_rounds) * kSums * 16 * 2;
}

__attribute__((target("avx512f,avx512bf16"))) double loop_avx512_bf16(std::int64_t num_rounds) {
  constexpr int kSums = 24;
  __m512 sums[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_setzero_ps();
  const auto value = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3F803F80));  // ones
  for (std::int64_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm512_dpbf16_ps(sums[i], value, value);
      asm volatile("" : "+v"(sums[i]));
    }
  }
  return static_cast<double>(num_rounds) * kSums * 32 * 2;
}

__attribute__((target("amx-tile,amx-bf16"))) double loop_amx(std::int64_t num_rounds) {
  struct alignas(64) {
    std::uint8_t palette = 1;
    std::uint8_t zeros[15] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t num_rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  asm volatile("ldtilecfg %0" : : "m"(config));
  asm volatile(
      "tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3\n\t"
      "tilezero %tmm4\n\ttilezero %tmm5\n\ttilezero %tmm6\n\ttilezero %tmm7");
  for (std::int64_t round = 0; round < num_rounds; ++round) {
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
  }
  asm volatile("tilerelease");
  return static_cast<double>(num_rounds) * 4 * 16 * 16 * 32 * 2;
}

double loop(GemmPath path, std::int64_t num_rounds) {
  switch (path) {
    case GemmPath::kBaseline:
      return loop_baseline(num_rounds);
    case GemmPath::kAvx2:
      return loop_avx2(num_rounds);
    case GemmPath::kAvx512:
      return loop_avx512(num_rounds);
    case GemmPath::kAvx512Bf16:
      return loop_avx512_bf16(num_rounds);
    case GemmPath::kAmxBf16:
      return loop_amx(num_rounds);
  }
  CHECK(false, "every path has a loop");
}

struct Timing {
  double seconds = 0;
  double operations = 0;  // of one thread
};

// All threads run the loop at once: an item waits until each thread has one.
Timing time_on_all(WorkerTeam& team, GemmPath path, std::int64_t num_rounds) {
  const auto num_threads = static_cast<std::ptrdiff_t>(team.num_threads());
  std::barrier<> meeting(num_threads);
  const SteadyClock clock;
  Timing timing;
  team.for_each(num_threads, [&](std::int64_t item_idx, std::size_t) {
    meeting.arrive_and_wait();
    const Stopwatch stopwatch(clock);
    const double operations = loop(path, num_rounds);
    meeting.arrive_and_wait();
    if (item_idx == 0) timing = {.seconds = stopwatch.seconds(), .operations = operations};
  });
  return timing;
}

}  // namespace

double measure_peak_gflops(WorkerTeam& team, GemmPath path) {
  constexpr double kWantedSeconds = 0.02;
  constexpr int kNumTries = 3;
  std::int64_t num_rounds = 1000;
  while (time_on_all(team, path, num_rounds).seconds < kWantedSeconds) num_rounds *= 2;
  double best = 0;
  for (int i = 0; i < kNumTries; ++i) {
    const Timing timing = time_on_all(team, path, num_rounds);
    best = std::max(best, timing.operations * static_cast<double>(team.num_threads()) / timing.seconds / 1e9);
  }
  return best;
}

}  // namespace sluice
