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
#include <iterator>

#include "base/bf16.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"

namespace sluice {
namespace {

// Each loop keeps so many independent sums that none waits for the one before it, and returns the operations done.
// Operands are random: zeros, or ones, switch fewer transistors, and a CPU at its power limit then runs faster than any
// product of real numbers could (2.7 times as fast with AMX, on the machine where this was found). An empty asm that
// claims to change a sum keeps the compiler from folding the loop; loops over the sums are unrolled, or the sums would
// live in memory.

// Sums are of num_rounds products at most, so they stay far from infinity.
float random_value(Random& random) { return static_cast<float>(random.next() >> 40) * 0x1p-23F - 1; }

constexpr int kLoadedSteps = 4;  // 16 KiB of tiles: well inside any L1

struct alignas(64) PeakOperands {
  float f32[4][16];
  BF16 bf16[4 * kLoadedSteps][512];  // tiles, two of rows and two of columns a step

  explicit PeakOperands(Random random) {
    for (auto& vector : f32) std::generate(std::begin(vector), std::end(vector), [&] { return random_value(random); });
    for (auto& tile : bf16)
      std::generate(std::begin(tile), std::end(tile), [&] { return to_bf16(random_value(random)); });
  }
};

__attribute__((target("sse2"))) double loop_baseline(std::int64_t num_rounds, const PeakOperands& operands) {
  constexpr int kSums = 12;
  __m128 sums[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) sums[i] = _mm_setzero_ps();
  __m128 a = _mm_load_ps(operands.f32[0]);
  const __m128 b = _mm_load_ps(operands.f32[1]);
  for (std::int64_t round = 0; round < num_rounds; ++round) {
    asm volatile("" : "+x"(a));
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm_add_ps(sums[i], _mm_mul_ps(a, b));
      asm volatile("" : "+x"(sums[i]));
    }
  }
  return static_cast<double>(num_rounds) * kSums * 4 * 2;
}

__attribute__((target("avx2,fma"))) double loop_avx2(std::int64_t num_rounds, const PeakOperands& operands) {
  constexpr int kSums = 12;
  __m256 sums[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_setzero_ps();
  const __m256 a = _mm256_load_ps(operands.f32[0]);
  const __m256 b[2] = {_mm256_load_ps(operands.f32[1]), _mm256_load_ps(operands.f32[2])};
  for (std::int64_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm256_fmadd_ps(a, b[i % 2], sums[i]);
      asm volatile("" : "+x"(sums[i]));
    }
  }
  return static_cast<double>(num_rounds) * kSums * 8 * 2;
}

__attribute__((target("avx512f"))) double loop_avx512(std::int64_t num_rounds, const PeakOperands& operands) {
  constexpr int kSums = 24;
  __m512 sums[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_setzero_ps();
  const __m512 a = _mm512_load_ps(operands.f32[0]);
  const __m512 b[2] = {_mm512_load_ps(operands.f32[1]), _mm512_load_ps(operands.f32[2])};
  for (std::int64_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm512_fmadd_ps(a, b[i % 2], sums[i]);
      asm volatile("" : "+v"(sums[i]));
    }
  }
  return static_cast<double>(num_rounds) * kSums * 16 * 2;
}

__attribute__((target("avx512f,avx512bf16"))) double loop_avx512_bf16(std::int64_t num_rounds,
                                                                      const PeakOperands& operands) {
  constexpr int kSums = 24;
  __m512 sums[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_setzero_ps();
  const auto a = reinterpret_cast<__m512bh>(_mm512_load_si512(operands.bf16[0]));
  const __m512bh b[2] = {reinterpret_cast<__m512bh>(_mm512_load_si512(operands.bf16[1])),
                         reinterpret_cast<__m512bh>(_mm512_load_si512(operands.bf16[2]))};
  for (std::int64_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm512_dpbf16_ps(sums[i], a, b[i % 2]);
      asm volatile("" : "+v"(sums[i]));
    }
  }
  return static_cast<double>(num_rounds) * kSums * 32 * 2;
}

// Eight registers of 16 rows of 64 bytes, all cleared.
__attribute__((target("amx-tile"))) void configure_tiles() {
  struct alignas(64) {
    std::uint8_t palette = 1;
    std::uint8_t zeros[15] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t num_rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  asm volatile("ldtilecfg %0" : : "m"(config));
}

constexpr double kStepOperations = 4.0 * 16 * 16 * 32 * 2;
constexpr std::int64_t kTileRowBytes = 64;

__attribute__((target("amx-tile"))) void load_tiles(const BF16 (*tiles)[512]) {
  asm volatile(
      "tileloadd (%0,%4,1), %%tmm6\n\ttileloadd (%1,%4,1), %%tmm7\n\t"
      "tileloadd (%2,%4,1), %%tmm4\n\ttileloadd (%3,%4,1), %%tmm5"
      :
      : "r"(tiles[0]), "r"(tiles[1]), "r"(tiles[2]), "r"(tiles[3]), "r"(kTileRowBytes)
      : "memory");
}

__attribute__((target("amx-tile,amx-bf16"))) void multiply_tiles() {
  asm volatile(
      "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
      "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
}

enum class TileData : std::uint8_t { kRandom, kZero };

__attribute__((target("amx-tile,amx-bf16"))) double loop_amx(std::int64_t num_rounds, const PeakOperands& operands,
                                                             TileData data) {
  configure_tiles();
  if (data == TileData::kRandom) load_tiles(operands.bf16);
  for (std::int64_t round = 0; round < num_rounds; ++round) multiply_tiles();
  asm volatile("tilerelease");
  return static_cast<double>(num_rounds) * kStepOperations;
}

__attribute__((target("amx-tile,amx-bf16"))) double loop_amx_loaded(std::int64_t num_rounds,
                                                                    const PeakOperands& operands) {
  configure_tiles();
  for (std::int64_t round = 0; round < num_rounds; ++round) {
    for (int step = 0; step < kLoadedSteps; ++step) {
      load_tiles(operands.bf16 + 4 * step);
      multiply_tiles();
    }
  }
  asm volatile("tilerelease");
  return static_cast<double>(num_rounds) * kLoadedSteps * kStepOperations;
}

struct Timing {
  double seconds = 0;
  double operations = 0;  // of one thread
};

double run_loop(GemmPath path, PeakLoop loop, std::int64_t num_rounds, const PeakOperands& operands) {
  if (loop == PeakLoop::kLoaded) return loop_amx_loaded(num_rounds, operands);
  switch (path) {
    case GemmPath::kBaseline:
      return loop_baseline(num_rounds, operands);
    case GemmPath::kAvx2:
      return loop_avx2(num_rounds, operands);
    case GemmPath::kAvx512:
      return loop_avx512(num_rounds, operands);
    case GemmPath::kAvx512Bf16:
      return loop_avx512_bf16(num_rounds, operands);
    case GemmPath::kAmxBf16:
      return loop_amx(num_rounds, operands, TileData::kRandom);
  }
  CHECK(false, "every path has a loop");
}

// All threads run the loop at once: an item waits until each thread has one.
template <typename Loop>
Timing time_on_all(WorkerTeam& team, std::int64_t num_rounds, const Loop& loop_of) {
  const auto num_threads = static_cast<std::ptrdiff_t>(team.num_threads());
  std::barrier<> meeting(num_threads);
  const SteadyClock clock;
  Timing timing;
  team.for_each(num_threads, [&](std::int64_t item_idx, std::size_t) {
    meeting.arrive_and_wait();
    const Stopwatch stopwatch(clock);
    const double operations = loop_of(num_rounds);
    meeting.arrive_and_wait();
    if (item_idx == 0) timing = {.seconds = stopwatch.seconds(), .operations = operations};
  });
  return timing;
}

template <typename Loop>
double gflops_on_all(WorkerTeam& team, std::int64_t num_rounds, const Loop& loop_of) {
  const Timing timing = time_on_all(team, num_rounds, loop_of);
  return timing.operations * static_cast<double>(team.num_threads()) / timing.seconds / 1e9;
}

// So many rounds that they can be timed.
template <typename Loop>
std::int64_t enough_rounds(WorkerTeam& team, const Loop& loop_of) {
  constexpr double kWantedSeconds = 0.02;
  std::int64_t num_rounds = 1000;
  while (time_on_all(team, num_rounds, loop_of).seconds < kWantedSeconds) num_rounds *= 2;
  return num_rounds;
}

}  // namespace

PeakMeter::PeakMeter(WorkerTeam& team, GemmPath path, PeakLoop loop) : team_(team), path_(path), loop_(loop) {
  CHECK(loop == PeakLoop::kAlone || path == GemmPath::kAmxBf16, "only AMX loads tiles");
  const PeakOperands operands(Random(1));
  num_rounds_ =
      enough_rounds(team, [&](std::int64_t num_rounds) { return run_loop(path, loop, num_rounds, operands); });
}

double PeakMeter::gflops() const {
  const PeakOperands operands(Random(1));
  return gflops_on_all(team_, num_rounds_,
                       [&](std::int64_t num_rounds) { return run_loop(path_, loop_, num_rounds, operands); });
}

double measure_amx_zeros_gflops(WorkerTeam& team) {
  const PeakOperands operands(Random(1));
  const auto loop_of = [&](std::int64_t num_rounds) { return loop_amx(num_rounds, operands, TileData::kZero); };
  constexpr int kTries = 3;  // a neighbour may disturb one
  const std::int64_t num_rounds = enough_rounds(team, loop_of);
  double best = 0;
  for (int i = 0; i < kTries; ++i) best = std::max(best, gflops_on_all(team, num_rounds, loop_of));
  return best;
}

}  // namespace sluice
