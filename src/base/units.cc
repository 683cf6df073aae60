// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"

namespace sluice {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 14> kSuffixes{{
    {"", 1.0},
    {"B", 1.0},
    {"K", 1024.0},
    {"KiB", 1024.0},
    {"M", static_cast<double>(kMiB)},
    {"MiB", static_cast<double>(kMiB)},
    {"G", static_cast<double>(kGiB)},
    {"GiB", static_cast<double>(kGiB)},
    {"T", static_cast<double>(kTiB)},
    {"TiB", static_cast<double>(kTiB)},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
}};

// 2^62: everything below survives a double and a later round_up.
constexpr double kMaxBytes = 4611686018427387904.0;

[[noreturn]] void refuse(std::string_view text) {
  throw InvalidInput(fmt::format("'{}' is not a size: write a number and a unit, such as 512MiB or 2GiB", text));
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (status != std::errc{} || !std::isfinite(number) || number < 0) refuse(text);
  std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  for (const auto& [name, factor] : kSuffixes) {
    if (suffix != name) continue;
    const double bytes = number * factor;
    if (bytes > kMaxBytes) refuse(text);
    return static_cast<std::uint64_t>(std::llround(bytes));
  }
  refuse(text);
}

double parse_seconds(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 6> kTimes{
      {{"", 1}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}}};
  constexpr double kMostSeconds = 1e9;
  double number = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  const auto* const unit =
      std::find_if(kTimes.begin(), kTimes.end(), [&](const auto& time) { return time.first == suffix; });
  const double seconds = unit == kTimes.end() ? 0 : number * unit->second;
  if (status != std::errc{} || !(seconds > 0) || seconds > kMostSeconds) {
    throw InvalidInput(fmt::format("'{}' is not a time: write a number and a unit, such as 90s, 10min or 2h", text));
  }
  return seconds;
}

std::string format_count(std::uint64_t count) {
  if (count >= 1'000'000'000) return fmt::format("{:.2f} B", static_cast<double>(count) / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.2f} M", static_cast<double>(count) / 1e6);
  return std::to_string(count);
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit_idx = 0;
  while (value >= 1023.995 && unit_idx + 1 < kNames.size()) {  // what would print as 1024.00 is one of the next
    value /= 1024.0;
    ++unit_idx;
  }
  if (value == std::floor(value)) return fmt::format("{:.0f} {}", value, kNames[unit_idx]);
  return fmt::format("{:.2f} {}", value, kNames[unit_idx]);
}

double gb_per_s(std::uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0.0;
}

}  // namespace sluice
