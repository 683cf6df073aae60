// SPDX-License-Identifier: Apache-2.0
// One value of a configuration, on its way from text to a type. Knows where it stands, so that whatever is wrong with
// it is said as file:line:key, found, expected. Borrows the tree; lives as long as a call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/yaml_tree.h"

namespace sluice {

struct CountRange {
  std::uint64_t min = 0;
  std::uint64_t max = std::uint64_t{1} << 40;  // large enough for any count, small enough to multiply
};

struct NumberRange {
  enum class Bound { kIncluded, kExcluded };
  double min = 0;
  double max = std::numeric_limits<double>::max();
  Bound lowest = Bound::kIncluded;
  Bound highest = Bound::kIncluded;

  bool contains(double value) const;  // false for what is not a number
};

std::string describe_range(const CountRange& range);   // "integer ≥ 1"
std::string describe_range(const NumberRange& range);  // "number > 0 and ≤ 1"

class ConfigValue {
 public:
  ConfigValue(const YamlValue::Entry& entry, const std::string& file)
      : ConfigValue(entry.value, file, entry.key, entry.line) {}

  const YamlValue& yaml() const { return value_; }
  const std::string& key() const { return key_; }
  bool is_null() const { return value_.kind == YamlValue::Kind::kNull; }
  bool is_word(std::string_view word) const;
  std::string place() const;  // "run.yaml:7:seed", "command line:seed"

  std::uint64_t integer(const CountRange& range) const;
  double real(const NumberRange& range) const;
  bool flag() const;
  std::string text() const;
  std::uint64_t bytes() const;
  double seconds() const;
  // A list of texts, or one text with commas between them.
  std::vector<std::string> texts() const;
  std::size_t choice(std::span<const std::string_view> names) const;

  ConfigValue at(std::size_t item_idx) const;  // of a list
  ConfigValue at(const YamlValue::Entry& entry) const;

  [[noreturn]] void expected(std::string_view what) const;  // what was found is added
  [[noreturn]] void refuse(std::string_view sentence) const;

 private:
  ConfigValue(const YamlValue& value, const std::string& file, std::string key, std::size_t line)
      : value_(value), file_(file), key_(std::move(key)), line_(value.line == 0 ? 0 : line) {}

  const YamlValue& value_;
  const std::string& file_;
  std::string key_;
  std::size_t line_;  // of the key, for a value that is a block starts further down; 0 for the command line
};

// The names of an enum's values. The first name of a value is the one that is written.
template <typename Enum, std::size_t kSize>
struct EnumNames {
  std::array<std::pair<std::string_view, Enum>, kSize> pairs;

  Enum read(const ConfigValue& value) const {
    std::array<std::string_view, kSize> names;
    for (std::size_t i = 0; i < kSize; ++i) names[i] = pairs[i].first;
    return pairs[value.choice(names)].second;
  }
  std::string_view name(Enum wanted) const {
    for (const auto& [name, value] : pairs) {
      if (value == wanted) return name;
    }
    return {};
  }
};

}  // namespace sluice
