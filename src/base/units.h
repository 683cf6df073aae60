// SPDX-License-Identifier: Apache-2.0
// Sizes as people write them and as we print them, and the arithmetic of alignment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;
inline constexpr std::uint64_t kTiB = 1024 * kGiB;

constexpr std::uint64_t div_ceil(std::uint64_t value, std::uint64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return div_ceil(value, multiple) * multiple;
}
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t multiple) { return value / multiple * multiple; }
constexpr bool is_aligned(std::uint64_t value, std::uint64_t multiple) { return value % multiple == 0; }

// "512MiB", "1.5 GiB", "2GB" (powers of ten), "4096". Throws InvalidInput that quotes `text` and shows the form.
std::uint64_t parse_bytes(std::string_view text);

// "90s", "10min", "1.5 h", "600" (seconds), as a number of seconds above 0. Throws InvalidInput as above.
double parse_seconds(std::string_view text);

// "70.55 B", "4.95 M", "896": parameters and other large counts.
std::string format_count(std::uint64_t count);
// 1536 MiB as "1.50 GiB".
std::string format_bytes(std::uint64_t bytes);

// Bytes over seconds as decimal gigabytes a second, the unit drives are sold in; 0 where no time has passed.
double gb_per_s(std::uint64_t bytes, double seconds);

}  // namespace sluice
