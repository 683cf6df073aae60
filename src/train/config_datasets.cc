// SPDX-License-Identifier: Apache-2.0
#include "train/config_datasets.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "format/json_text.h"

namespace sluice {
namespace {

// Our names first: they are what is written. Then what Axolotl calls the same rows.
constexpr EnumNames<std::string_view, 13> kSchemas{{{
    {"auto", "auto"},
    {"messages", "messages"},
    {"conversations", "conversations"},
    {"alpaca", "alpaca"},
    {"prompt_completion", "prompt_completion"},
    {"question_answer", "question_answer"},
    {"text", "text"},
    {"chat_template", "messages"},
    {"chat", "messages"},
    {"sharegpt", "conversations"},
    {"alpaca_chat.load_qa", "question_answer"},
    {"completion", "text"},
    {"pretrain", "text"},
}}};

constexpr std::string_view kKeys =
    "path, type (or schema), field_messages, message_property_mappings, message_field_role, message_field_content, "
    "field, split, ds_type";

void require_word(const ConfigValue& value, std::string_view word, std::string_view advice) {
  if (!value.is_word(word)) value.expected(fmt::format("{}; {}", word, advice));
}

// Which columns of a message hold who speaks and what: only the two common pairs are read.
void require_message_column(const ConfigValue& value, std::string_view ours, std::string_view sharegpt) {
  if (!value.is_word(ours) && !value.is_word(sharegpt)) {
    value.expected(fmt::format("{} or {}; rename the column in the data", ours, sharegpt));
  }
}

void read_mappings(const ConfigValue& value) {
  if (value.yaml().kind != YamlValue::Kind::kMap) value.expected("a mapping of role and content");
  for (const YamlValue::Entry& entry : value.yaml().entries) {
    const ConfigValue column = value.at(entry);
    if (entry.key == "role") {
      require_message_column(column, "role", "from");
    } else if (entry.key == "content") {
      require_message_column(column, "content", "value");
    } else {
      column.refuse("only role and content are mapped; other columns go to the chat template as they are");
    }
  }
}

// True where the messages stand in a column called conversations.
bool read_messages_field(const ConfigValue& value) {
  constexpr std::array<std::string_view, 2> kFields{"messages", "conversations"};
  return value.choice(kFields) == 1;
}

void read_entry(DatasetChoice& dataset, const YamlValue::Entry& entry, const ConfigValue& value) {
  if (entry.key == "path") {
    dataset.path = value.text();
  } else if (entry.key == "type" || entry.key == "schema") {
    if (value.yaml().kind == YamlValue::Kind::kMap) {
      value.refuse("prompt formats of one's own are not read; convert the rows to messages, or to alpaca");
    }
    dataset.schema = kSchemas.read(value);
  } else if (entry.key == "field_messages") {
    read_messages_field(value);
  } else if (entry.key == "message_property_mappings") {
    read_mappings(value);
  } else if (entry.key == "message_field_role") {
    require_message_column(value, "role", "from");
  } else if (entry.key == "message_field_content") {
    require_message_column(value, "content", "value");
  } else if (entry.key == "field") {
    require_word(value, "text", "rename the column in the data");
  } else if (entry.key == "split") {
    require_word(value, "train", "a file is taken whole: cut it, or set max_samples or val_set_size");
  } else if (entry.key == "ds_type") {
    value.text();  // a file says by its name what it is
  } else {
    value.refuse(fmt::format("the entry of a data set has no key {}; it may have {}", in_quotes(entry.key), kKeys));
  }
}

DatasetChoice read_dataset(const ConfigValue& value) {
  if (value.yaml().kind == YamlValue::Kind::kScalar) return {.path = value.text()};
  if (value.yaml().kind != YamlValue::Kind::kMap) value.expected("a path, or a mapping with path and type");
  DatasetChoice dataset;
  bool has_type = false;
  bool in_conversations = false;
  for (const YamlValue::Entry& entry : value.yaml().entries) {
    const ConfigValue inner = value.at(entry);
    if (inner.is_null()) continue;
    if (entry.key == "type" || entry.key == "schema") {
      if (has_type) inner.refuse("type and schema are two words for one thing; keep one");
      has_type = true;
    }
    if (entry.key == "field_messages") in_conversations = read_messages_field(inner);
    read_entry(dataset, entry, inner);
  }
  if (dataset.path.empty()) value.refuse("this data set has no path; add path: and the file");
  if (in_conversations && (dataset.schema == "messages" || dataset.schema == "auto")) dataset.schema = "conversations";
  return dataset;
}

}  // namespace

std::vector<DatasetChoice> read_datasets(const ConfigValue& value) {
  std::vector<DatasetChoice> datasets;
  switch (value.yaml().kind) {
    case YamlValue::Kind::kList:
      for (std::size_t i = 0; i < value.yaml().items.size(); ++i) datasets.push_back(read_dataset(value.at(i)));
      break;
    case YamlValue::Kind::kMap:
      datasets.push_back(read_dataset(value));
      break;
    case YamlValue::Kind::kScalar:
      for (std::string& path : value.texts()) datasets.push_back({.path = std::move(path)});
      break;
    case YamlValue::Kind::kNull:
      break;
  }
  if (datasets.empty()) value.expected("at least one data set");
  return datasets;
}

std::string write_datasets(const std::vector<DatasetChoice>& datasets) {
  if (datasets.empty()) return "null";
  std::string list = "[";
  for (const DatasetChoice& dataset : datasets) {
    list += fmt::format("{}{{path: {}, type: {}}}", list.size() > 1 ? ", " : "", yaml_scalar(dataset.path),
                        yaml_scalar(dataset.schema));
  }
  return list + "]";
}

}  // namespace sluice
