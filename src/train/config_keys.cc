// SPDX-License-Identifier: Apache-2.0
#include "train/config_keys.h"

#include <algorithm>
#include <iterator>

#include "base/closest_word.h"

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

}  // namespace

bool ConfigKey::is_spelled(std::string_view spelling) const {
  return name == spelling || std::find(synonyms.begin(), synonyms.end(), spelling) != synonyms.end();
}

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> kKeys = all_keys();
  return kKeys;
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
