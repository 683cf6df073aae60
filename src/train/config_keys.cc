// SPDX-License-Identifier: Apache-2.0
#include "train/config_keys.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kLongestSpelling = 64;

std::vector<ConfigKey> all_keys() {
  std::vector<ConfigKey> keys;
  for (auto part : {data_keys, optimization_keys, adapter_keys, run_folder_keys, memory_keys}) {
    std::vector<ConfigKey> of_part = part();
    std::move(of_part.begin(), of_part.end(), std::back_inserter(keys));
  }
  return keys;
}

// Insertions, deletions, replacements, and swaps of neighbours, which is what fingers do.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      rows[i][j] =
          std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

bool ConfigKey::is_spelled(std::string_view spelling) const {
  return name == spelling || std::find(synonyms.begin(), synonyms.end(), spelling) != synonyms.end();
}

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = all_keys();
  return keys;
}

const ConfigKey* find_config_key(std::string_view spelling) {
  for (const ConfigKey& key : config_keys()) {
    if (key.is_spelled(spelling)) return &key;
  }
  return nullptr;
}

const ForeignKey* find_foreign_key(const std::vector<ForeignKey>& keys, std::string_view spelling) {
  for (const ForeignKey& key : keys) {
    std::string_view pattern = key.pattern;
    const bool is_prefix = pattern.ends_with('*');
    if (is_prefix) pattern.remove_suffix(1);
    if (is_prefix ? spelling.starts_with(pattern) : spelling == pattern) return &key;
  }
  return nullptr;
}

std::optional<std::string_view> closest_spelling(std::string_view spelling) {
  if (spelling.size() > kLongestSpelling) return std::nullopt;
  std::optional<std::string_view> closest;
  std::size_t least = std::max<std::size_t>(2, spelling.size() / 3) + 1;
  const auto offer = [&](std::string_view candidate) {
    const std::size_t distance = edit_distance(spelling, candidate);
    if (distance < least) {
      least = distance;
      closest = candidate;
    }
  };
  for (const ConfigKey& key : config_keys()) {
    offer(key.name);
    for (const std::string_view synonym : key.synonyms) offer(synonym);
  }
  for (const ForeignKey& key : ignored_keys()) {
    if (!key.pattern.ends_with('*')) offer(key.pattern);
  }
  return closest;
}

}  // namespace sluice
