// SPDX-License-Identifier: Apache-2.0
// Typed access to config.json and its kin. A value of the wrong type or outside its range is one FormatError that names
// the file, the key ("rope_scaling.factor"), what was expected and what was found. Null counts as absent, as in
// transformers. A ConfigReader is a value; it knows no architecture.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tensor/dtype.h"

namespace sluice {

struct IntRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

struct RealRange {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
};

class ConfigReader {
 public:
  // `where` is the file's path. Throws FormatError unless `json` is an object.
  ConfigReader(std::string where, nlohmann::json json);

  const std::string& where() const { return where_; }
  const nlohmann::json& json() const { return json_; }
  bool has(const std::string& key) const;  // false for null

  std::optional<std::int64_t> find_int(const std::string& key, IntRange range = {}) const;
  std::optional<double> find_real(const std::string& key, RealRange range = {}) const;  // integers count
  std::optional<std::string> find_text(const std::string& key) const;
  std::optional<bool> find_flag(const std::string& key) const;
  std::optional<ConfigReader> find_object(const std::string& key) const;
  std::optional<std::vector<std::int64_t>> find_ints(const std::string& key, IntRange range = {}) const;  // a list
  std::optional<std::vector<double>> find_reals(const std::string& key, RealRange range = {}) const;
  std::optional<std::vector<std::string>> find_texts(const std::string& key) const;
  // One integer, or a list of them: token ids come as either.
  std::optional<std::vector<std::int64_t>> find_int_or_ints(const std::string& key, IntRange range = {}) const;

  std::int64_t require_int(const std::string& key, std::int64_t min, std::int64_t max) const;
  double require_real(const std::string& key, RealRange range = {}) const;
  std::string require_text(const std::string& key) const;
  bool require_flag(const std::string& key) const;
  ConfigReader require_object(const std::string& key) const;

  std::int64_t int_or(const std::string& key, std::int64_t otherwise, IntRange range = {}) const;
  double real_or(const std::string& key, double otherwise, RealRange range = {}) const;
  std::string text_or(const std::string& key, const std::string& otherwise) const;
  bool flag_or(const std::string& key, bool otherwise) const;

  // For what the caller finds wrong: "<file>: <key path> is <found>; expected <expected>". `key` may be absent.
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const;

 private:
  ConfigReader(std::string where, std::string key_prefix, nlohmann::json json);

  const nlohmann::json* find(const std::string& key) const;  // null where absent or null
  [[noreturn]] void fail_value(const std::string& key, const std::string& expected, const nlohmann::json& found) const;
  std::int64_t int_of(const std::string& key, const nlohmann::json& value, IntRange range) const;
  double real_of(const std::string& key, const nlohmann::json& value, RealRange range) const;
  const nlohmann::json* find_list(const std::string& key, const std::string& expected) const;

  std::string where_;
  std::string key_prefix_;  // "rope_scaling." in that sub-object
  nlohmann::json json_;
};

// Reads and parses the file; at most 16 MiB.
ConfigReader read_config(const std::string& path);

// What every config.json says about itself.
std::string config_model_type(const ConfigReader& config);                  // required: "llama"
std::vector<std::string> config_architectures(const ConfigReader& config);  // empty where absent
// `dtype` (transformers 5) or `torch_dtype`: "bfloat16" is kBF16. None where absent or "auto"; FormatError where it is
// a type that Sluice does not have.
std::optional<DType> config_dtype(const ConfigReader& config);

}  // namespace sluice
