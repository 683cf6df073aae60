// SPDX-License-Identifier: Apache-2.0
// Keys of the common types, made from the member that they fill. For the tables of config_keys.h alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config_keys.h"

namespace sluice {

using Synonyms = std::vector<std::string_view>;

std::string write_list(const std::vector<std::string>& texts);

ConfigKey integer_key(std::string_view name, Synonyms synonyms, CountRange range, std::uint64_t TrainConfig::*member);
// `none` is the word for an empty one: auto or null.
ConfigKey optional_key(std::string_view name, Synonyms synonyms, std::string_view none,
                       std::optional<std::uint64_t> TrainConfig::*member, CountRange range = {.min = 1});
ConfigKey real_key(std::string_view name, Synonyms synonyms, NumberRange range, double TrainConfig::*member);
ConfigKey flag_key(std::string_view name, Synonyms synonyms, bool TrainConfig::*member);
ConfigKey text_key(std::string_view name, Synonyms synonyms, std::string TrainConfig::*member);
ConfigKey bytes_key(std::string_view name, Synonyms synonyms, std::optional<std::uint64_t> TrainConfig::*member);
ConfigKey interval_key(std::string_view name, Synonyms synonyms, StepInterval TrainConfig::*member);

// `type` lists the names for the documentation; `names` outlives the key.
template <typename Enum, std::size_t kSize>
ConfigKey enum_key(std::string_view name, Synonyms synonyms, std::string type, const EnumNames<Enum, kSize>& names,
                   Enum TrainConfig::*member) {
  ConfigKey key{.name = name, .synonyms = std::move(synonyms), .type = std::move(type), .field = name};
  key.read = [name, &names, member](ConfigDraft& draft, const ConfigValue& value) {
    draft.config.*member = names.read(value);
    return name;
  };
  key.write = [&names, member](const ConfigDraft& draft) { return yaml_scalar(names.name(draft.config.*member)); };
  key.default_text = key.write(ConfigDraft{});
  return key;
}

}  // namespace sluice
