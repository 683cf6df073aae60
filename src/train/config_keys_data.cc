// SPDX-License-Identifier: Apache-2.0
// Keys that say what is trained, and on what.
#include "base/step_limits.h"
#include "format/json_text.h"
#include "train/config_datasets.h"
#include "train/config_key_builders.h"

namespace sluice {
namespace {

ConfigKey datasets_key(std::string_view name, Synonyms synonyms, std::vector<DatasetChoice> TrainConfig::*member) {
  ConfigKey key{.name = name,
                .synonyms = std::move(synonyms),
                .type = "list of path and type, or paths with commas between them",
                .default_text = "null",
                .field = name};
  key.read = [name, member](ConfigDraft& draft, const ConfigValue& value) {
    draft.config.*member = read_datasets(value);
    return name;
  };
  key.write = [member](const ConfigDraft& draft) { return write_datasets(draft.config.*member); };
  return key;
}

ConfigKey dataset_dir_key() {
  return {.name = "dataset_dir",
          .type = "text",
          .default_text = "null",
          .field = "dataset_dir",
          .read =
              [](ConfigDraft& draft, const ConfigValue& value) {
                draft.dataset_dir = value.text();
                return std::string_view("dataset_dir");
              },
          .write = [](const ConfigDraft& draft) { return yaml_scalar(draft.dataset_dir); },
          .written = ConfigKey::Written::kNo};
}

// Axolotl has names for templates of its own; here a template is the model's, or a file, which has a dot or a slash.
ConfigKey chat_template_key() {
  ConfigKey key = text_key("chat_template", {}, &TrainConfig::chat_template);
  key.type = "file, or tokenizer_default";
  key.read = [](ConfigDraft& draft, const ConfigValue& value) {
    const std::string text = value.text();
    const bool is_file = text.find_first_of("./") != std::string::npos;
    draft.config.chat_template = is_file ? text : "";
    if (!is_file && !value.is_word("tokenizer_default")) {
      draft.warnings.push_back(value.place() + ": the model's own template is used, not one called " + in_quotes(text) +
                               "; name a file to use another");
    }
    return std::string_view("chat_template");
  };
  return key;
}

ConfigKey stage_key() {
  ConfigKey key{.name = "stage", .type = "sft, pt", .default_text = "sft", .field = "stage"};
  key.read = [](ConfigDraft& draft, const ConfigValue& value) {
    if (!value.is_word("sft") && !value.is_word("pt")) value.expected("sft; preference training is not offered");
    if (value.is_word("pt")) {
      draft.warnings.push_back(value.place() +
                               ": ignored: rows are trained as their type says; type: text is pretraining");
    }
    return std::string_view();
  };
  return key;
}

}  // namespace

std::vector<ConfigKey> data_keys() {
  std::vector<ConfigKey> keys;
  keys.push_back(text_key("base_model", {"model_name_or_path"}, &TrainConfig::base_model));
  keys.back().type = "folder";
  keys.back().default_text = "required";
  keys.push_back(datasets_key("datasets", {"dataset"}, &TrainConfig::datasets));
  keys.back().default_text = "required";
  keys.push_back(datasets_key("test_datasets", {"eval_dataset"}, &TrainConfig::test_datasets));
  keys.push_back(dataset_dir_key());
  keys.push_back(chat_template_key());
  keys.push_back(integer_key("sequence_len", {"cutoff_len", "max_seq_length"},
                             {.min = kMinSequenceLen, .max = kMaxSequenceLen}, &TrainConfig::sequence_len));
  keys.push_back(flag_key("sample_packing", {"packing"}, &TrainConfig::sample_packing));
  keys.push_back(flag_key("train_on_inputs", {"train_on_prompt"}, &TrainConfig::train_on_inputs));
  keys.push_back(optional_key("max_samples", {}, "null", &TrainConfig::max_samples));
  keys.push_back(real_key("val_set_size", {"val_size"}, {.max = 1e9}, &TrainConfig::val_set_size));
  keys.back().type = "part of the rows < 1, or a number of rows";
  keys.push_back(stage_key());
  return keys;
}

}  // namespace sluice
