// SPDX-License-Identifier: Apache-2.0
// Keys that say what a run leaves in its folder and when, and how much of the machine it may take.
#include <fmt/format.h>

#include "train/config_key_builders.h"

namespace sluice {
namespace {

constexpr EnumNames<RunStrategy, 5> kStrategies{{{
    {"no", RunStrategy::kNo},
    {"steps", RunStrategy::kSteps},
    {"epoch", RunStrategy::kEpoch},
    {"none", RunStrategy::kNo},
    {"false", RunStrategy::kNo},  // what `no` is to a YAML 1.1 writer
}}};

constexpr EnumNames<BoundaryPlace, 4> kPlaces{{{
    {"auto", BoundaryPlace::kAuto},
    {"device", BoundaryPlace::kDevice},
    {"host", BoundaryPlace::kHost},
    {"nvme", BoundaryPlace::kNvme},
}}};

constexpr EnumNames<Recompute, 2> kRecomputes{{{
    {"auto", Recompute::kAuto},
    {"all", Recompute::kAll},
}}};

constexpr EnumNames<DeviceWish, 3> kDevices{{{
    {"auto", DeviceWish::kAuto},
    {"cpu", DeviceWish::kCpu},
    {"cuda", DeviceWish::kCuda},
}}};

constexpr EnumNames<DirectWish, 5> kDirectWishes{{{
    {"auto", DirectWish::kAuto},
    {"on", DirectWish::kOn},
    {"off", DirectWish::kOff},
    {"true", DirectWish::kOn},
    {"false", DirectWish::kOff},
}}};

constexpr std::uint64_t kMostThreads = 1024;  // same bound as --threads

ConfigKey per_epoch_key(std::string_view name, std::optional<std::uint64_t> ConfigDraft::*member) {
  ConfigKey key{.name = name, .type = describe_range(CountRange{.min = 1}), .default_text = "null", .field = name};
  key.read = [name, member](ConfigDraft& draft, const ConfigValue& value) {
    draft.*member = value.integer({.min = 1});
    return name;
  };
  key.write = [member](const ConfigDraft& draft) { return std::to_string(*(draft.*member)); };
  key.written = ConfigKey::Written::kNo;
  return key;
}

ConfigKey resume_key() {
  ConfigKey key = text_key("resume_from_checkpoint", {}, &TrainConfig::resume_from_checkpoint);
  key.type = "folder, latest, true, false";
  key.read = [](ConfigDraft& draft, const ConfigValue& value) {
    const bool is_latest = value.is_word("true") || value.is_word("latest");
    const bool is_none = value.is_word("false");
    draft.config.resume_from_checkpoint = is_latest ? "latest" : is_none ? "" : value.text();
    return std::string_view("resume_from_checkpoint");
  };
  return key;
}

ConfigKey auto_resume_key() {
  ConfigKey key{.name = "auto_resume_from_checkpoints",
                .type = "true, false",
                .default_text = "null",
                .field = "resume_from_checkpoint"};
  key.read = [](ConfigDraft& draft, const ConfigValue& value) {
    if (!value.flag()) return std::string_view();
    draft.config.resume_from_checkpoint = "latest";
    return std::string_view("resume_from_checkpoint");
  };
  return key;
}

ConfigKey commit_key() {
  constexpr std::string_view kName = "commit_every";
  ConfigKey key{.name = kName, .type = "auto, time such as 10min", .default_text = "auto", .field = kName};
  key.read = [kName](ConfigDraft& draft, const ConfigValue& value) {
    draft.config.commit_every_s.reset();
    if (!value.is_word("auto")) draft.config.commit_every_s = value.seconds();
    return kName;
  };
  key.write = [](const ConfigDraft& draft) {
    return draft.config.commit_every_s ? fmt::format("{}s", *draft.config.commit_every_s) : std::string("auto");
  };
  return key;
}

ConfigKey cache_key() {
  constexpr std::string_view kName = "cache";
  ConfigKey key{.name = kName, .type = "folders", .default_text = "null", .field = kName};
  key.read = [kName](ConfigDraft& draft, const ConfigValue& value) {
    draft.config.cache = value.texts();
    return kName;
  };
  key.write = [](const ConfigDraft& draft) {
    return draft.config.cache.empty() ? "null" : write_list(draft.config.cache);
  };
  return key;
}

}  // namespace

std::vector<ConfigKey> run_folder_keys() {
  std::vector<ConfigKey> keys;
  keys.push_back(text_key("output_dir", {}, &TrainConfig::output_dir));
  keys.back().type = "folder";
  keys.push_back(enum_key("save_strategy", {}, "no, steps, epoch", kStrategies, &TrainConfig::save_strategy));
  keys.back().default_text = "steps where save_steps is given, else epoch";
  keys.push_back(interval_key("save_steps", {}, &TrainConfig::save_steps));
  keys.push_back(per_epoch_key("saves_per_epoch", &ConfigDraft::saves_per_epoch));
  keys.push_back(optional_key("save_total_limit", {}, "null", &TrainConfig::save_total_limit));
  keys.push_back(commit_key());
  keys.push_back(interval_key("logging_steps", {}, &TrainConfig::logging_steps));
  keys.push_back(
      enum_key("eval_strategy", {"evaluation_strategy"}, "no, steps, epoch", kStrategies, &TrainConfig::eval_strategy));
  keys.back().default_text = "steps where eval_steps is given, epoch where rows are held out, else no";
  keys.push_back(interval_key("eval_steps", {}, &TrainConfig::eval_steps));
  keys.back().default_text = "logging_steps";
  keys.push_back(per_epoch_key("evals_per_epoch", &ConfigDraft::evals_per_epoch));
  keys.push_back(flag_key("load_best_model_at_end", {}, &TrainConfig::load_best_model_at_end));
  keys.push_back(
      optional_key("early_stopping_patience", {"early_stopping_steps"}, "null", &TrainConfig::early_stopping_patience));
  keys.push_back(resume_key());
  keys.push_back(auto_resume_key());
  keys.push_back(flag_key("overwrite_output_dir", {}, &TrainConfig::overwrite_output_dir));
  return keys;
}

std::vector<ConfigKey> memory_keys() {
  std::vector<ConfigKey> keys;
  keys.push_back(enum_key("device", {}, "auto, cpu, cuda", kDevices, &TrainConfig::device));
  keys.push_back(bytes_key("gpu_memory", {"gpu_memory_limit"}, &TrainConfig::gpu_memory_bytes));
  keys.push_back(bytes_key("host_memory", {}, &TrainConfig::host_memory_bytes));
  keys.push_back(cache_key());
  keys.push_back(optional_key("threads", {}, "auto", &TrainConfig::threads, {.min = 1, .max = kMostThreads}));
  keys.push_back(optional_key("wave_size", {}, "auto", &TrainConfig::wave_size));
  keys.push_back(optional_key("group_size", {}, "auto", &TrainConfig::group_size));
  keys.push_back(enum_key("boundaries", {}, "auto, device, host, nvme", kPlaces, &TrainConfig::boundaries));
  keys.push_back(enum_key("recompute", {}, "auto, all", kRecomputes, &TrainConfig::recompute));
  keys.push_back(enum_key("direct_storage", {"use_gds"}, "auto, on, off", kDirectWishes, &TrainConfig::direct_storage));
  return keys;
}

}  // namespace sluice
