// SPDX-License-Identifier: Apache-2.0
#include "train/train_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "format/json_text.h"
#include "format/whole_file.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "train/config_homes.h"
#include "train/config_keys.h"
#include "train/config_overrides.h"
#include "train/config_settle.h"
#include "train/yaml_tree.h"

namespace sluice {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 1 << 20;

class ConfigReading {
 public:
  explicit ConfigReading(std::string file) : file_(std::move(file)) {}

  // The entries of one source. Those whose field is `outranked` are checked and otherwise passed over.
  void read(const YamlValue& map, const std::set<std::string_view>& outranked) {
    std::map<std::string_view, Seen> seen;
    for (const YamlValue::Entry& entry : map.entries) {
      const ConfigValue value(entry, file_);
      const ConfigKey* const key = find_config_key(entry.key);
      if (key == nullptr) {
        read_foreign(entry, value);
      } else if (!value.is_null()) {
        read_known(*key, value, outranked, seen);
      }
    }
  }

  ReadConfig settle() { return settle_config(std::move(draft_), file_); }

 private:
  struct Seen {
    std::string place;
    std::string written;
  };

  void read_known(const ConfigKey& key, const ConfigValue& value, const std::set<std::string_view>& outranked,
                  std::map<std::string_view, Seen>& seen) {
    ConfigDraft alone;
    const std::string_view field = key.read(alone, value);
    if (field.empty()) std::move(alone.warnings.begin(), alone.warnings.end(), std::back_inserter(draft_.warnings));
    if (field.empty() || outranked.contains(field)) return;
    const ConfigKey* const owner = find_config_key(field);
    CHECK(owner != nullptr && owner->write, "a field has a key of its own");
    const std::string written = owner->write(alone);
    const auto [earlier, is_new] = seen.try_emplace(field, Seen{value.place(), written});
    if (!is_new && earlier->second.written != written) {
      value.refuse(fmt::format("{} contradicts {}, which says {}; keep one", describe_yaml(value.yaml()),
                               earlier->second.place, on_one_line(earlier->second.written)));
    }
    key.read(draft_, value);
    draft_.given.insert_or_assign(std::string(field), value.place());
  }

  void read_foreign(const YamlValue::Entry& entry, const ConfigValue& value) {
    if (const ForeignKey* const refused = find_foreign_key(refused_keys(), entry.key)) {
      if (value.is_null() || value.is_word("false") || value.is_word("0")) return;
      value.refuse(refused->reason);
    }
    if (const ForeignKey* const ignored = find_foreign_key(ignored_keys(), entry.key)) {
      if (!value.is_null()) draft_.warnings.push_back(fmt::format("{}: ignored: {}", value.place(), ignored->reason));
      return;
    }
    const std::optional<std::string_view> closest = closest_spelling(entry.key);
    value.refuse(
        fmt::format("there is no key {}; {}", in_quotes(entry.key),
                    closest ? fmt::format("did you mean {}?", *closest) : std::string("docs/config.md lists them")));
  }

  std::string file_;
  ConfigDraft draft_;
};

}  // namespace

OptimizerState optimizer_state_of(const TrainConfig& config) {
  switch (config.optimizer) {
    case OptimizerKind::kAdamWFp32:
      return OptimizerState::kAdamWF32;
    case OptimizerKind::kAdamWBf16:
      return OptimizerState::kAdamWBF16;
    case OptimizerKind::kAdamW8Bit:
      return OptimizerState::kAdamW8Bit;
    case OptimizerKind::kSgd:
      break;
  }
  return config.momentum > 0 ? OptimizerState::kSgdMomentum : OptimizerState::kSgd;
}

std::uint64_t StepInterval::resolve(std::uint64_t total_steps) const {
  if (ratio <= 0) return std::max<std::uint64_t>(steps, 1);
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(std::ceil(static_cast<double>(total_steps) * ratio)), 1);
}

ReadConfig parse_train_config(std::string_view text, const std::string& file, const std::vector<std::string>& overrides,
                              const HomeOf& home_of) {
  YamlValue tree = parse_yaml(text, file);
  if (tree.kind == YamlValue::Kind::kNull) tree.kind = YamlValue::Kind::kMap;
  if (tree.kind != YamlValue::Kind::kMap) {
    throw InvalidInput(
        fmt::format("{}: found {}, expected lines such as `base_model: /models/llama`", file, describe_yaml(tree)));
  }
  const YamlValue settings = apply_overrides(tree, overrides);
  std::set<std::string_view> outranked;
  for (const YamlValue::Entry& entry : settings.entries) {
    if (const ConfigKey* const key = find_config_key(entry.key)) outranked.insert(key->field);
  }
  ConfigReading reading(file);
  reading.read(tree, outranked);
  reading.read(settings, {});
  ReadConfig settled = reading.settle();
  if (home_of) settled.config = with_homes(std::move(settled.config), home_of);
  return settled;
}

namespace {

// Throws if the path is a data set or weights rather than a configuration.
void refuse_other_files(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  for (const std::string_view other : {".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".safetensors", ".gguf"}) {
    if (ending != other) continue;
    throw InvalidInput(fmt::format(
        "'{}' is no training configuration, by its ending; name a YAML file, which names the model and the data "
        "(docs/config.md)",
        path));
  }
}

}  // namespace

ReadConfig read_train_config(const std::string& path, const std::vector<std::string>& overrides,
                             const HomeOf& home_of) {
  refuse_other_files(path);
  PosixFileSystem files;
  ThreadsEngine engine;
  return parse_train_config(read_whole_file(files, engine, path, kMaxConfigBytes), path, overrides, home_of);
}

std::string write_as_run(const TrainConfig& config) {
  ConfigDraft draft;
  draft.config = config;
  std::string text;
  for (const ConfigKey& key : config_keys()) {
    if (!key.write || key.written == ConfigKey::Written::kNo) continue;
    text += fmt::format("{}: {}\n", key.name, key.write(draft));
  }
  return text;
}

}  // namespace sluice
