// SPDX-License-Identifier: Apache-2.0
// AMX tile registers in plain C++, as the instructions are documented: for tests on CPUs without them. Each thread has
// its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bf16.h"
#include "base/check.h"

namespace sluice::cpu {

class EmulatedTiles {
 public:
  template <int kTile>
  static void zero() {
    tile(kTile).fill(std::byte{0});
  }
  template <int kTile>
  static void load_once(const void* from, std::int64_t stride_bytes) {
    load<kTile>(from, stride_bytes);
  }
  template <int kTile>
  static void load(const void* from, std::int64_t stride_bytes) {
    for (std::int64_t row = 0; row < kRows; ++row) {
      std::memcpy(tile(kTile).data() + row * kRowBytes, static_cast<const std::byte*>(from) + row * stride_bytes,
                  kRowBytes);
    }
  }
  template <int kTile>
  static void store(void* to, std::int64_t stride_bytes) {
    for (std::int64_t row = 0; row < kRows; ++row) {
      std::memcpy(static_cast<std::byte*>(to) + row * stride_bytes, tile(kTile).data() + row * kRowBytes, kRowBytes);
    }
  }
  // tdpbf16ps: sums[m][n] += rows[m][2 k] columns[k][2 n] + rows[m][2 k + 1] columns[k][2 n + 1], for each k.
  template <int kSums, int kRowTile, int kColumnTile>
  static void multiply() {
    const auto rows = values<BF16, 512>(kRowTile);
    const auto columns = values<BF16, 512>(kColumnTile);
    auto sums = values<float, 256>(kSums);
    for (std::size_t m = 0; m < 16; ++m) {
      for (std::size_t k = 0; k < 16; ++k) {
        for (std::size_t n = 0; n < 16; ++n) {
          sums[m * 16 + n] += to_float(rows[m * 32 + 2 * k]) * to_float(columns[k * 32 + 2 * n]) +
                              to_float(rows[m * 32 + 2 * k + 1]) * to_float(columns[k * 32 + 2 * n + 1]);
        }
      }
    }
    std::memcpy(tile(kSums).data(), sums.data(), sizeof(sums));
  }
  static void narrow(std::byte* to, const float* sums, bool is_streamed) {
    check_line(to, is_streamed);
    for (std::int64_t i = 0; i < 32; ++i) {
      const BF16 half = to_bf16(sums[i]);
      std::memcpy(to + i * std::int64_t{sizeof(half)}, &half, sizeof(half));
    }
  }
  static void add(float* to, const float* more) {
    for (std::int64_t i = 0; i < 32; ++i) to[i] += more[i];
  }
  static void add_total(float* to, const float* before, const float* sums) {
    for (std::int64_t i = 0; i < 32; ++i) to[i] += before[i] + sums[i];
  }
  static void narrow_total(std::byte* to, const float* before, const float* sums, bool is_streamed) {
    std::array<float, 32> total;
    for (std::size_t i = 0; i < 32; ++i) total[i] = before[i] + sums[i];
    narrow(to, total.data(), is_streamed);
  }
  static void copy_line(std::byte* to, const std::byte* from, bool is_streamed) {
    check_line(to, is_streamed);
    std::memcpy(to, from, kRowBytes);
  }
  static void narrow_turned(std::byte* to, const float* sums, const float* before) {
    for (std::int64_t column = 0; column < 16; ++column, to += kRowBytes) {
      std::array<float, 32> total;
      for (std::int64_t row = 0; row < 32; ++row) {
        const float more = before == nullptr ? 0 : before[row * 32 + column];
        total[static_cast<std::size_t>(row)] = sums[row * 32 + column] + more;
      }
      narrow(to, total.data(), false);
    }
  }
  static std::uint32_t enter() {
    is_configured() = true;
    return 1;
  }
  static void leave(std::uint32_t entered) {
    CHECK(entered == 1, "what enter() returned comes back");
    is_configured() = false;
  }

 private:
  static constexpr std::int64_t kRows = 16;
  static constexpr std::int64_t kRowBytes = 64;
  using Tile = std::array<std::byte, kRows * kRowBytes>;

  static void check_line(const std::byte* to, bool is_streamed) {
    CHECK(!is_streamed || reinterpret_cast<std::uintptr_t>(to) % kRowBytes == 0, "what is streamed is a whole line");
  }
  static bool& is_configured() {
    thread_local bool configured = false;
    return configured;
  }
  static Tile& tile(std::size_t tile_idx) {
    thread_local std::array<Tile, 8> tiles;
    CHECK(is_configured(), "tiles are configured before they are used");
    return tiles[tile_idx];
  }
  template <typename T, std::size_t kCount>
  static std::array<T, kCount> values(std::size_t tile_idx) {
    std::array<T, kCount> out;
    static_assert(sizeof(out) == sizeof(Tile));
    std::memcpy(out.data(), tile(tile_idx).data(), sizeof(out));
    return out;
  }
};

}  // namespace sluice::cpu
