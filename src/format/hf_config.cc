// SPDX-License-Identifier: Apache-2.0
#include "format/hf_config.h"

#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "format/json_text.h"

namespace sluice {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 16 * kMiB;

template <typename Range, typename Value>
std::string range_text(std::string_view kind, const Range& range, Value lowest, Value highest) {
  if (range.min == lowest && range.max == highest) return std::string(kind);
  if (range.max == highest) return fmt::format("{} of at least {}", kind, range.min);
  if (range.min == lowest) return fmt::format("{} of at most {}", kind, range.max);
  return fmt::format("{} from {} to {}", kind, range.min, range.max);
}

std::string text_of(IntRange range) { return range_text("a whole number", range, IntRange().min, IntRange().max); }

std::string text_of(RealRange range) { return range_text("a number", range, RealRange().min, RealRange().max); }

}  // namespace

ConfigReader::ConfigReader(std::string where, nlohmann::json json)
    : ConfigReader(std::move(where), std::string(), std::move(json)) {
  if (!json_.is_object()) {
    throw FormatError(fmt::format("'{}' holds {}; expected an object", where_, describe_json(json_)));
  }
}

ConfigReader::ConfigReader(std::string where, std::string key_prefix, nlohmann::json json)
    : where_(std::move(where)), key_prefix_(std::move(key_prefix)), json_(std::move(json)) {}

const nlohmann::json* ConfigReader::find(const std::string& key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigReader::has(const std::string& key) const { return find(key) != nullptr; }

void ConfigReader::fail_value(const std::string& key, const std::string& expected, const nlohmann::json& found) const {
  throw FormatError(fmt::format("'{}' has {} as {}{}; expected {}", where_, describe_json(found), key_prefix_,
                                on_one_line(key), expected));
}

void ConfigReader::fail(const std::string& key, const std::string& expected) const {
  if (const nlohmann::json* value = find(key)) fail_value(key, expected, *value);
  throw FormatError(fmt::format("'{}' has no {}{}; expected {}", where_, key_prefix_, on_one_line(key), expected));
}

std::int64_t ConfigReader::int_of(const std::string& key, const nlohmann::json& value, IntRange range) const {
  const bool too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(IntRange().max);
  if (!value.is_number_integer() || too_large) fail_value(key, text_of(range), value);
  const auto number = value.get<std::int64_t>();
  if (number < range.min || number > range.max) fail_value(key, text_of(range), value);
  return number;
}

double ConfigReader::real_of(const std::string& key, const nlohmann::json& value, RealRange range) const {
  if (!value.is_number()) fail_value(key, text_of(range), value);
  const auto number = value.get<double>();
  if (!std::isfinite(number) || number < range.min || number > range.max) fail_value(key, text_of(range), value);
  return number;
}

const nlohmann::json* ConfigReader::find_list(const std::string& key, const std::string& expected) const {
  const nlohmann::json* value = find(key);
  if (value != nullptr && !value->is_array()) fail_value(key, expected, *value);
  return value;
}

std::optional<std::int64_t> ConfigReader::find_int(const std::string& key, IntRange range) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return int_of(key, *value, range);
}

std::optional<double> ConfigReader::find_real(const std::string& key, RealRange range) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return real_of(key, *value, range);
}

std::optional<std::string> ConfigReader::find_text(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_value(key, "a text", *value);
  return value->get<std::string>();
}

std::optional<bool> ConfigReader::find_flag(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_value(key, "true or false", *value);
  return value->get<bool>();
}

std::optional<ConfigReader> ConfigReader::find_object(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail_value(key, "an object", *value);
  return ConfigReader(where_, key_prefix_ + on_one_line(key) + ".", *value);
}

std::optional<std::vector<std::int64_t>> ConfigReader::find_ints(const std::string& key, IntRange range) const {
  const nlohmann::json* list = find_list(key, "a list of whole numbers");
  if (list == nullptr) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < list->size(); ++i) {
    numbers.push_back(int_of(fmt::format("{}[{}]", key, i), (*list)[i], range));
  }
  return numbers;
}

std::optional<std::vector<double>> ConfigReader::find_reals(const std::string& key, RealRange range) const {
  const nlohmann::json* list = find_list(key, "a list of numbers");
  if (list == nullptr) return std::nullopt;
  std::vector<double> numbers;
  for (std::size_t i = 0; i < list->size(); ++i) {
    numbers.push_back(real_of(fmt::format("{}[{}]", key, i), (*list)[i], range));
  }
  return numbers;
}

std::optional<std::vector<std::string>> ConfigReader::find_texts(const std::string& key) const {
  const nlohmann::json* list = find_list(key, "a list of texts");
  if (list == nullptr) return std::nullopt;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const nlohmann::json& value = (*list)[i];
    if (!value.is_string()) fail_value(fmt::format("{}[{}]", key, i), "a text", value);
    texts.push_back(value.get<std::string>());
  }
  return texts;
}

std::optional<std::vector<std::int64_t>> ConfigReader::find_int_or_ints(const std::string& key, IntRange range) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array()) return find_ints(key, range);
  return std::vector<std::int64_t>{int_of(key, *value, range)};
}

std::int64_t ConfigReader::require_int(const std::string& key, std::int64_t min, std::int64_t max) const {
  const IntRange range{.min = min, .max = max};
  const std::optional<std::int64_t> value = find_int(key, range);
  if (!value) fail(key, text_of(range));
  return *value;
}

double ConfigReader::require_real(const std::string& key, RealRange range) const {
  const std::optional<double> value = find_real(key, range);
  if (!value) fail(key, text_of(range));
  return *value;
}

std::string ConfigReader::require_text(const std::string& key) const {
  std::optional<std::string> value = find_text(key);
  if (!value) fail(key, "a text");
  return *std::move(value);
}

bool ConfigReader::require_flag(const std::string& key) const {
  const std::optional<bool> value = find_flag(key);
  if (!value) fail(key, "true or false");
  return *value;
}

ConfigReader ConfigReader::require_object(const std::string& key) const {
  std::optional<ConfigReader> value = find_object(key);
  if (!value) fail(key, "an object");
  return *std::move(value);
}

std::int64_t ConfigReader::int_or(const std::string& key, std::int64_t otherwise, IntRange range) const {
  return find_int(key, range).value_or(otherwise);
}

double ConfigReader::real_or(const std::string& key, double otherwise, RealRange range) const {
  return find_real(key, range).value_or(otherwise);
}

std::string ConfigReader::text_or(const std::string& key, const std::string& otherwise) const {
  return find_text(key).value_or(otherwise);
}

bool ConfigReader::flag_or(const std::string& key, bool otherwise) const { return find_flag(key).value_or(otherwise); }

ConfigReader read_config(const std::string& path) { return {path, read_json_file(path, kMaxConfigBytes)}; }

std::string config_model_type(const ConfigReader& config) { return config.require_text("model_type"); }

std::vector<std::string> config_architectures(const ConfigReader& config) {
  return config.find_texts("architectures").value_or(std::vector<std::string>());
}

std::optional<DType> config_dtype(const ConfigReader& config) {
  const std::string key = config.has("dtype") ? "dtype" : "torch_dtype";
  const std::optional<std::string> text = config.find_text(key);
  if (!text || *text == "auto") return std::nullopt;
  std::string_view name = *text;
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16" || name == "half") return DType::kF16;
  if (name == "float32" || name == "float") return DType::kF32;
  if (name == "float8_e4m3fn") return DType::kF8E4M3;
  config.fail(key, "\"bfloat16\", \"float16\", \"float32\" or \"float8_e4m3fn\"");
}

}  // namespace sluice
