// SPDX-License-Identifier: Apache-2.0
#include "base/closest_word.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr std::size_t kLongestWord = 64;  // the time is quadratic in it
constexpr std::size_t kShortestStart = 3;

// A truncated word is close, however much is missing: a start of kShortestStart letters or more costs one edit.
std::size_t distance_to(std::string_view word, std::string_view candidate) {
  if (word.size() >= kShortestStart && candidate.starts_with(word)) return candidate.size() > word.size() ? 1 : 0;
  return edit_distance(word, candidate);
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the dynamic programme: the current one and the two before it.
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  std::vector<std::size_t> before(row.size());
  std::vector<std::size_t> two_before(row.size());
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_before, before);
    std::swap(before, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> words) {
  if (word.size() > kLongestWord) return std::nullopt;
  std::optional<std::string> closest;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : words) {
    const std::size_t distance = distance_to(word, candidate);
    // A distance of the candidate's whole length means that no letter of it is kept.
    if (distance >= least || distance >= candidate.size()) continue;
    least = distance;
    closest = candidate;
  }
  return closest;
}

}  // namespace sluice
