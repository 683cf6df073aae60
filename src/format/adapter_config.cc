// SPDX-License-Identifier: Apache-2.0
#include "format/adapter_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "format/hf_config.h"
#include "format/json_text.h"

namespace sluice {
namespace {

constexpr std::int64_t kMaxRank = 1 << 16;
constexpr double kMaxAlpha = 1e9;

[[noreturn]] void refuse(const ConfigReader& config, std::string_view key, std::string_view what) {
  throw InvalidInput(
      fmt::format("{}: {} is set: {} cannot be merged by Sluice; merge it with PEFT", config.where(), key, what));
}

bool is_set(const ConfigReader& config, const std::string& key) {
  if (!config.has(key)) return false;
  const nlohmann::json& value = config.json().at(key);
  if (value.is_boolean()) return value.get<bool>();
  return !((value.is_array() || value.is_object()) && value.empty());
}

struct Refusal {
  const char* key;
  const char* what;
};

// Keys of PEFT's LoraConfig under which a merged weight is not base + scale * B A.
constexpr std::array<Refusal, 8> kRefusals{{
    {"use_dora", "DoRA, which scales the columns of the sum,"},
    {"lora_bias", "an adapter with biases"},
    {"layer_replication", "a model with repeated layers"},
    {"trainable_token_indices", "an adapter of single tokens"},
    {"target_parameters", "an adapter of parameters outside linear layers"},
    {"alora_invocation_tokens", "an adapter that only acts behind certain tokens"},
    {"use_qalora", "QALoRA"},
    {"use_bdlora", "block-diagonal LoRA"},
}};

// Starts that take something out of the base's weights: the adapter fits a base that is not the one on disk.
constexpr std::array<std::string_view, 5> kChangedBases{"pissa", "olora", "corda", "loftq", "lora_ga"};

void refuse_what_is_no_product(const ConfigReader& config) {
  const std::string type = config.require_text("peft_type");
  if (type != "LORA") {
    throw InvalidInput(
        fmt::format("{}: peft_type is {}; Sluice merges LORA adapters only", config.where(), in_quotes(type)));
  }
  for (const Refusal& refusal : kRefusals) {
    if (is_set(config, refusal.key)) refuse(config, refusal.key, refusal.what);
  }
  const std::string bias = config.text_or("bias", "none");
  if (bias != "none") {
    throw InvalidInput(
        fmt::format(R"({}: bias is {}; Sluice merges adapters whose bias is "none")", config.where(), in_quotes(bias)));
  }
  if (!config.has("init_lora_weights") || !config.json().at("init_lora_weights").is_string()) return;
  const auto start = config.json().at("init_lora_weights").get<std::string>();
  for (const std::string_view changed : kChangedBases) {
    if (!std::string_view(start).starts_with(changed)) continue;
    throw InvalidInput(
        fmt::format("{}: init_lora_weights is {}, which changes the base's weights too; convert it to a plain LoRA "
                    "(in PEFT: save_pretrained with path_initial_model_for_weight_conversion)",
                    config.where(), in_quotes(start)));
  }
}

// PEFT reads a key as a regular expression for the end of a module's name. Names are what people write there; more
// than a name is refused. Without its anchors; a dot stands for itself.
std::string plain_pattern(const ConfigReader& patterns, const std::string& key) {
  std::string_view rest(key);
  if (rest.starts_with('^')) rest.remove_prefix(1);
  if (rest.ends_with('$')) rest.remove_suffix(1);
  std::string plain;
  for (std::size_t at = 0; at < rest.size(); ++at) {
    if (rest.substr(at).starts_with("\\.")) continue;
    const char c = rest[at];
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_letter && !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.') {
      throw InvalidInput(fmt::format("{}: the pattern {} is a regular expression; Sluice takes names of modules only",
                                     patterns.where(), in_quotes(key)));
    }
    plain += c;
  }
  if (plain.empty()) throw FormatError(fmt::format("{}: a pattern of modules is empty", patterns.where()));
  return plain;
}

// The keys of an object of the file's outermost one in the order of the text, which a parsed document does not keep.
std::vector<std::string> keys_in_order(std::string_view text, const std::string& object_key) {
  std::vector<std::string> keys;
  bool inside = false;
  const auto see = [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    if (event != nlohmann::json::parse_event_t::key) return true;
    if (depth == 1) inside = value == object_key;
    if (depth == 2 && inside) keys.push_back(value.get<std::string>());
    return true;
  };
  const nlohmann::json seen = nlohmann::json::parse(text, see);
  return seen.is_object() ? keys : std::vector<std::string>();
}

template <typename Value, typename Read>
std::vector<std::pair<std::string, Value>> read_patterns(const ConfigReader& config, std::string_view text,
                                                         const std::string& key, Read read) {
  std::vector<std::pair<std::string, Value>> patterns;
  const std::optional<ConfigReader> object = config.find_object(key);
  if (!object) return patterns;
  for (const std::string& name : keys_in_order(text, key)) {
    if (object->has(name)) patterns.emplace_back(plain_pattern(*object, name), read(*object, name));
  }
  return patterns;
}

bool names_module(std::string_view pattern, std::string_view module) {
  if (!module.ends_with(pattern)) return false;
  return module.size() == pattern.size() || module[module.size() - pattern.size() - 1] == '.';
}

template <typename Value>
Value pattern_value(const std::vector<std::pair<std::string, Value>>& patterns, std::string_view module,
                    Value otherwise) {
  const auto found = std::find_if(patterns.begin(), patterns.end(),
                                  [&](const auto& pattern) { return names_module(pattern.first, module); });
  return found != patterns.end() ? found->second : otherwise;
}

}  // namespace

AdapterConfig parse_adapter_config(std::string_view text, const std::string& where) {
  const ConfigReader config(where, parse_json(text, where));
  refuse_what_is_no_product(config);
  AdapterConfig adapter;
  adapter.where = where;
  adapter.rank = config.require_int("r", 1, kMaxRank);
  adapter.alpha = config.require_real("lora_alpha", {-kMaxAlpha, kMaxAlpha});
  adapter.scaling = config.flag_or("use_rslora", false) ? AdapterScaling::kByRootOfRank : AdapterScaling::kByRank;
  adapter.layout = config.flag_or("fan_in_fan_out", false) ? WeightLayout::kInOut : WeightLayout::kOutIn;
  adapter.rank_pattern = read_patterns<std::int64_t>(
      config, text, "rank_pattern",
      [](const ConfigReader& patterns, const std::string& key) { return patterns.require_int(key, 1, kMaxRank); });
  adapter.alpha_pattern =
      read_patterns<double>(config, text, "alpha_pattern", [](const ConfigReader& patterns, const std::string& key) {
        return patterns.require_real(key, {-kMaxAlpha, kMaxAlpha});
      });
  adapter.base_model = config.text_or("base_model_name_or_path", "");
  return adapter;
}

std::int64_t adapter_rank(const AdapterConfig& config, std::string_view module) {
  return pattern_value(config.rank_pattern, module, config.rank);
}

double adapter_scale(const AdapterConfig& config, std::string_view module) {
  const double alpha = pattern_value(config.alpha_pattern, module, config.alpha);
  const auto rank = static_cast<double>(adapter_rank(config, module));
  return alpha / (config.scaling == AdapterScaling::kByRank ? rank : std::sqrt(rank));
}

}  // namespace sluice
