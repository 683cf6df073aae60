// SPDX-License-Identifier: Apache-2.0
// What a Hugging Face model folder holds besides its weights: its configuration, how text is to be generated, and a
// copy of all such files for a folder that new weights are saved to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/hf_config.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

// Paths of the files that are there.
struct ModelFolder {
  std::string path;
  std::optional<std::string> config;             // config.json
  std::optional<std::string> generation_config;  // generation_config.json
  std::optional<std::string> safetensors;        // model.safetensors, or else its index
};

// Throws InvalidInput where the folder is not one that can be read.
ModelFolder look_into_model_folder(FileSystem& files, const std::string& path);

// Its config.json. Throws InvalidInput where there is none.
ConfigReader read_model_config(const ModelFolder& folder);

// How the makers of a model want it sampled; absent values are theirs to leave open.
struct GenerationConfig {
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<std::int64_t> top_k;
  std::optional<double> repetition_penalty;
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::int64_t> max_length;  // with the prompt
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> pad_token_id;
  std::vector<std::int64_t> eos_token_ids;
  std::vector<std::string> others;  // keys that ask for what Sluice does not do: "num_beams"
};

// Also reads a config.json, where older models keep their token ids.
GenerationConfig parse_generation_config(const ConfigReader& config);

// Makes the folder and those above it where they are missing. Throws InvalidInput where that cannot be.
void make_model_folder(const std::string& path);

enum class SideFiles {
  kAll,        // configuration and tokenizer
  kTokenizer,  // all but config.json and generation_config.json
  kConfig,     // only config.json and generation_config.json
};

bool is_side_file(std::string_view name);
// A folder in the model's, of chat templates that have a name.
inline constexpr const char* kNamedTemplatesFolder = "additional_chat_templates";
struct SideFileCopy {
  std::string from_folder;
  std::string to_folder;
  SideFiles which = SideFiles::kAll;
  // Chat template that replaces the folder's own; saved only as chat_template.jinja.
  std::optional<std::string> chat_template = std::nullopt;
};
// Copies the existing side files, each by rename, durable on return; returns their names. Chat templates of an earlier
// copy that this one does not contain are removed from the target, as they would contradict it. Weights are not copied.
std::vector<std::string> copy_side_files(FileSystem& files, IoEngine& engine, const SideFileCopy& copy);

}  // namespace sluice
