// SPDX-License-Identifier: Apache-2.0
// Every key that a configuration may have: how it is spelled, what it takes, which field it sets. Most keys are a
// field's own: they read it and write it. A few are other words for a field (`bf16: true` for `dtype: bf16`): they have
// no write. docs/config.md is held against these tables by a test.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config_value.h"
#include "train/train_config.h"

namespace sluice {

// A configuration while it is read: fields that settle_config() turns into others, and where each was given.
struct ConfigDraft {
  TrainConfig config;
  std::string dataset_dir;
  std::optional<std::uint64_t> saves_per_epoch;
  std::optional<std::uint64_t> evals_per_epoch;
  std::map<std::string, std::string, std::less<>> given;  // field -> place
  std::vector<std::string> warnings;

  bool has(std::string_view field) const { return given.contains(field); }
};

struct ConfigKey {
  std::string_view name;
  std::vector<std::string_view> synonyms;
  std::string type;
  std::string default_text;  // as the documentation has it
  std::string_view field;    // what it sets, by the name of the field's own key
  // Returns the field that was set; empty where this value says nothing, as `fp32: false` does.
  std::function<std::string_view(ConfigDraft&, const ConfigValue&)> read;
  // The field as a YAML value on one line; null for other words, and for fields that a settled configuration lacks.
  std::function<std::string(const ConfigDraft&)> write;
  enum class Written { kYes, kNo } written = Written::kYes;  // whether write_as_run() has it

  bool is_spelled(std::string_view spelling) const;
};

const std::vector<ConfigKey>& config_keys();
const ConfigKey* find_config_key(std::string_view spelling);

// What others' tools know and this one does not need (`is_ignored`), or cannot do. A pattern may end in `*`.
struct ForeignKey {
  std::string_view pattern;
  std::string_view reason;  // the rest of a sentence that starts with the key
};
const std::vector<ForeignKey>& ignored_keys();
const std::vector<ForeignKey>& refused_keys();
const ForeignKey* find_foreign_key(const std::vector<ForeignKey>& keys, std::string_view spelling);

// The accepted spelling that is closest to `spelling`, if any is close.
std::optional<std::string_view> closest_spelling(std::string_view spelling);

// The parts of config_keys(), in their order.
std::vector<ConfigKey> data_keys();
std::vector<ConfigKey> optimization_keys();
std::vector<ConfigKey> adapter_keys();
std::vector<ConfigKey> run_folder_keys();
std::vector<ConfigKey> memory_keys();

}  // namespace sluice
