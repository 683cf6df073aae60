// SPDX-License-Identifier: Apache-2.0
#include "format/model_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hub_id.h"
#include "base/units.h"
#include "format/adapter_folder.h"
#include "format/checkpoint.h"
#include "format/json_text.h"
#include "format/whole_file.h"
#include "io/io_failure.h"

namespace sluice {
namespace {

constexpr const char* kConfigName = "config.json";
constexpr const char* kGenerationConfigName = "generation_config.json";
constexpr const char* kTokenizerConfigName = "tokenizer_config.json";
constexpr const char* kTemplateName = "chat_template.jinja";
constexpr const char* kOldTemplateName = "chat_template.json";  // written by older versions of transformers

// What transformers saves beside the weights of a text model.
constexpr std::array<const char*, 9> kTokenizerNames{
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json",     "merges.txt",      "chat_template.jinja",   "chat_template.json",
};

constexpr std::uint64_t kMaxSideFileBytes = 512 * kMiB;  // tokenizers of 256k words take 35 MB

std::optional<std::string> path_if_there(FileSystem& files, const std::string& folder, const std::string& name) {
  std::string path = folder + "/" + name;
  if (!files.exists(path)) return std::nullopt;
  return path;
}

// Keys of generation_config.json that change what is generated, with the value beside null that asks for nothing.
struct OtherWish {
  const char* key;
  double nothing;
};
constexpr std::array<OtherWish, 19> kOtherWishes{{{"num_beams", 1},
                                                  {"penalty_alpha", 0},
                                                  {"guidance_scale", 1},
                                                  {"dola_layers", 0},
                                                  {"no_repeat_ngram_size", 0},
                                                  {"min_length", 0},
                                                  {"min_new_tokens", 0},
                                                  {"typical_p", 1},
                                                  {"top_h", 0},
                                                  {"epsilon_cutoff", 0},
                                                  {"eta_cutoff", 0},
                                                  {"exponential_decay_length_penalty", 0},
                                                  {"bad_words_ids", 0},
                                                  {"sequence_bias", 0},
                                                  {"suppress_tokens", 0},
                                                  {"begin_suppress_tokens", 0},
                                                  {"forced_bos_token_id", -1},
                                                  {"forced_eos_token_id", -1},
                                                  {"stop_strings", 0}}};

std::vector<std::string> other_wishes(const ConfigReader& config) {
  std::vector<std::string> keys;
  for (const OtherWish& wish : kOtherWishes) {
    if (!config.has(wish.key)) continue;
    const nlohmann::json& value = config.json().at(wish.key);
    if (value != wish.nothing && !value.empty() && value != false) keys.emplace_back(wish.key);
  }
  return keys;
}

// As paths in the model's folder.
std::vector<std::string> named_templates(FileSystem& files, const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kNamedTemplatesFolder);
  if (!files.exists(path)) return {};
  std::vector<std::string> names;
  for (const std::string& name : files.list(path)) {
    if (name.ends_with(".jinja")) names.push_back(fmt::format("{}/{}", kNamedTemplatesFolder, name));
  }
  return names;
}

// Throws InvalidInput for an adapter's folder, with the commands that take it and its base.
[[noreturn]] void refuse_adapter(const std::string& path) {
  std::string base;
  try {
    base = read_config(path + "/" + kAdapterConfigName).text_or("base_model_name_or_path", "");
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // A damaged adapter configuration is reported when the adapter is used.
  }
  const std::string named = base.empty() ? "BASE" : base;
  throw InvalidInput(fmt::format(
      "'{0}' is an adapter{1}, not a model: use it with 'sluice generate --model {2} --adapter {0}', or make "
      "a model of both with 'sluice merge --model {2} --adapter {0} --output MERGED'",
      path, base.empty() ? "" : " of " + base, named));
}

}  // namespace

ModelFolder look_into_model_folder(FileSystem& files, const std::string& path) {
  if (!files.exists(path)) require_model_directory(path);
  files.require_directory(path, OpenMode::kReadOnly);
  ModelFolder folder;
  folder.path = path;
  folder.config = path_if_there(files, path, kConfigName);
  folder.generation_config = path_if_there(files, path, kGenerationConfigName);
  folder.safetensors = path_if_there(files, path, kSafetensorsName);
  if (!folder.safetensors) folder.safetensors = path_if_there(files, path, kSafetensorsIndexName);
  if (!folder.safetensors && files.exists(path + "/" + kAdapterConfigName)) refuse_adapter(path);
  return folder;
}

ConfigReader read_model_config(const ModelFolder& folder) {
  if (!folder.config) {
    throw InvalidInput(
        fmt::format("'{}' has no config.json: it is not a model's folder in Hugging Face's layout; name one, or "
                    "download its missing files",
                    folder.path));
  }
  return read_config(*folder.config);
}

GenerationConfig parse_generation_config(const ConfigReader& config) {
  constexpr IntRange kTokenIds{.min = 0, .max = std::numeric_limits<std::int32_t>::max()};
  constexpr RealRange kShare{.min = 0, .max = 1};
  GenerationConfig parsed;
  parsed.do_sample = config.find_flag("do_sample");
  parsed.temperature = config.find_real("temperature", {.min = 0});
  parsed.top_p = config.find_real("top_p", kShare);
  parsed.min_p = config.find_real("min_p", kShare);
  parsed.repetition_penalty = config.find_real("repetition_penalty", {.min = 0});
  parsed.max_new_tokens = config.find_int("max_new_tokens", {.min = 0});
  parsed.max_length = config.find_int("max_length", {.min = 0});
  // Some models write -1 for a token that they do not have, or for no limit.
  const auto unless_minus_one = [&](const char* key) -> std::optional<std::int64_t> {
    const std::optional<std::int64_t> number = config.find_int(key, {.min = -1, .max = kTokenIds.max});
    return number == -1 ? std::nullopt : number;
  };
  parsed.top_k = unless_minus_one("top_k");
  parsed.bos_token_id = unless_minus_one("bos_token_id");
  parsed.pad_token_id = unless_minus_one("pad_token_id");
  parsed.eos_token_ids =
      config.find_int_or_ints("eos_token_id", {.min = -1, .max = kTokenIds.max}).value_or(std::vector<std::int64_t>());
  std::erase(parsed.eos_token_ids, -1);
  parsed.others = other_wishes(config);
  return parsed;
}

void make_model_folder(const std::string& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure) throw_io_failure(failure.value(), "make", path, PathRole::kNewFile);
}

bool is_side_file(std::string_view name) {
  return name == kConfigName || name == kGenerationConfigName ||
         std::find(kTokenizerNames.begin(), kTokenizerNames.end(), name) != kTokenizerNames.end();
}

namespace {

std::vector<std::string> names_to_copy(FileSystem& files, const SideFileCopy& copy) {
  std::vector<std::string> names;
  if (copy.which != SideFiles::kTokenizer) names.insert(names.end(), {kConfigName, kGenerationConfigName});
  const bool with_tokenizer = copy.which != SideFiles::kConfig;
  if (with_tokenizer) names.insert(names.end(), kTokenizerNames.begin(), kTokenizerNames.end());
  std::erase_if(names, [&](const std::string& name) {
    if (copy.chat_template && name == kTemplateName) return false;
    const bool is_replaced = copy.chat_template && name == kOldTemplateName;
    return is_replaced || !files.exists(copy.from_folder + "/" + name);
  });
  if (copy.chat_template || !with_tokenizer) return names;
  const std::vector<std::string> named = named_templates(files, copy.from_folder);
  names.insert(names.end(), named.begin(), named.end());
  return names;
}

std::string text_to_copy(FileSystem& files, IoEngine& engine, const SideFileCopy& copy, const std::string& name) {
  if (copy.chat_template && name == kTemplateName) return *copy.chat_template;
  const std::string path = fmt::format("{}/{}", copy.from_folder, name);
  std::string text = read_whole_file(files, engine, path, kMaxSideFileBytes);
  return copy.chat_template && name == kTokenizerConfigName ? without_member(text, "chat_template", path) : text;
}

// Removes chat templates of an earlier copy: readers would prefer them to the one in tokenizer_config.json.
void remove_other_templates(FileSystem& files, const std::string& folder, const std::vector<std::string>& names) {
  std::vector<std::string> templates = named_templates(files, folder);
  templates.insert(templates.end(), {kTemplateName, kOldTemplateName});
  for (const std::string& name : templates) {
    const bool is_wanted = std::find(names.begin(), names.end(), name) != names.end();
    if (!is_wanted) files.remove(fmt::format("{}/{}", folder, name));
  }
}

}  // namespace

std::vector<std::string> copy_side_files(FileSystem& files, IoEngine& engine, const SideFileCopy& copy) {
  files.require_directory(copy.from_folder, OpenMode::kReadOnly);
  files.require_directory(copy.to_folder, OpenMode::kReadWrite);
  std::vector<std::string> names = names_to_copy(files, copy);
  const std::string named_folder = fmt::format("{}/{}", copy.to_folder, kNamedTemplatesFolder);
  const bool any_named = !names.empty() && names.back().starts_with(kNamedTemplatesFolder);
  if (any_named) files.make_directory(named_folder);
  for (const std::string& name : names) {
    const std::string text = text_to_copy(files, engine, copy, name);
    write_whole_file(files, engine, fmt::format("{}/{}", copy.to_folder, name), text);
  }
  if (copy.which != SideFiles::kConfig) remove_other_templates(files, copy.to_folder, names);
  if (any_named) files.sync_directory(named_folder);
  if (!names.empty()) files.sync_directory(copy.to_folder);
  return names;
}

}  // namespace sluice
