// SPDX-License-Identifier: Apache-2.0
#include "train/config_overrides.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "format/json_text.h"
#include "train/config_keys.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxOverrides = 1000;
constexpr std::size_t kMaxSteps = 8;

[[noreturn]] void refuse(std::string_view key, std::string_view sentence) {
  throw InvalidInput(fmt::format("command line:{}: {}", on_one_line(key), sentence));
}

void forget_lines(YamlValue& value) {
  value.line = 0;
  for (YamlValue& item : value.items) forget_lines(item);
  for (YamlValue::Entry& entry : value.entries) {
    entry.line = 0;
    forget_lines(entry.value);
  }
}

std::vector<std::string> split_path(const std::string& key) {
  std::vector<std::string> steps;
  for (std::string_view rest = key;;) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    steps.emplace_back(rest.substr(0, dot));
    if (steps.back().empty() || steps.size() > kMaxSteps) refuse(key, "a key such as datasets.0.path was expected");
    if (dot == rest.size()) return steps;
    rest.remove_prefix(dot + 1);
  }
}

std::optional<std::size_t> as_index(std::string_view step) {
  std::size_t index = 0;
  const auto [rest, status] = std::from_chars(step.data(), step.data() + step.size(), index);
  if (status != std::errc{} || rest != step.data() + step.size()) return std::nullopt;
  return index;
}

// The file's value for a key in whatever spelling it has there; made where it has none.
YamlValue& find_or_add(YamlValue& map, const std::string& spelling) {
  const ConfigKey* const key = find_config_key(spelling);
  for (YamlValue::Entry& entry : map.entries) {
    if (entry.key == spelling || (key != nullptr && key->is_spelled(entry.key))) return entry.value;
  }
  map.entries.push_back({.key = spelling});
  return map.entries.back().value;
}

// The value one step further in. Lists grow by one at most.
YamlValue& step_into(YamlValue& value, const std::string& step, const std::string& key) {
  const std::optional<std::size_t> index = as_index(step);
  if (value.kind == YamlValue::Kind::kNull) {
    value = {.kind = index ? YamlValue::Kind::kList : YamlValue::Kind::kMap};
  }
  if (value.kind == YamlValue::Kind::kMap) return find_or_add(value, step);
  if (value.kind != YamlValue::Kind::kList) refuse(key, fmt::format("{} has no parts", describe_yaml(value)));
  if (!index || *index > value.items.size()) {
    refuse(key, fmt::format("found {}, expected a place in a list of {}, counted from 0", in_quotes(step),
                            value.items.size()));
  }
  if (*index == value.items.size()) value.items.emplace_back();
  return value.items[*index];
}

}  // namespace

YamlValue apply_overrides(YamlValue& tree, const std::vector<std::string>& overrides) {
  YamlValue whole_keys{.kind = YamlValue::Kind::kMap};
  if (overrides.size() > kMaxOverrides) throw InvalidInput("command line: there are more than 1000 settings");
  for (const std::string& setting : overrides) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InvalidInput(fmt::format("command line: found {}, expected key=value", in_quotes(setting)));
    }
    const std::string key = setting.substr(0, equals);
    YamlValue value = parse_yaml(setting.substr(equals + 1), "command line:" + on_one_line(key));
    forget_lines(value);
    const std::vector<std::string> path = split_path(key);
    if (path.size() == 1) {
      if (whole_keys.find(key) != nullptr) refuse(key, "it is given twice; keep one");
      whole_keys.entries.push_back({.key = key, .value = std::move(value)});
      continue;
    }
    YamlValue* place = &find_or_add(tree, path.front());
    for (std::size_t i = 1; i < path.size(); ++i) place = &step_into(*place, path[i], key);
    *place = std::move(value);
  }
  return whole_keys;
}

}  // namespace sluice
