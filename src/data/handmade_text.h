// SPDX-License-Identifier: Apache-2.0
// For tests: a model's folder whose tokens are single characters, so that ids and labels can be written by hand, and a
// reading of such texts that shares nothing with the tokenizer.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/example.h"
#include "data/model_text.h"
#include "io/scratch_directory.h"

namespace sluice {

inline constexpr const char* kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// In the order of their ids, as the file spells them: special tokens, printable ASCII, space, line end, and one token
// of two characters.
inline std::vector<std::string> handmade_tokens() {
  std::vector<std::string> tokens{"<s>", "</s>", "<|im_start|>", "<|im_end|>"};
  for (char c = 0x21; c < 0x7F; ++c) tokens.emplace_back(1, c);
  tokens.insert(tokens.end(), {"Ġ", "Ċ", "ĊĊ"});
  return tokens;
}

inline void write_text(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

// `chat_template`: empty for a base model.
inline void write_handmade_model(const std::string& folder, std::string_view chat_template) {
  nlohmann::json vocab;
  nlohmann::json added = nlohmann::json::array();
  const std::vector<std::string> tokens = handmade_tokens();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    vocab[tokens[i]] = i;
    if (i < 4) added.push_back({{"id", i}, {"content", tokens[i]}, {"special", true}, {"normalized", false}});
  }
  nlohmann::json document = nlohmann::json::parse(R"({
    "version": "1.0",
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    "post_processor": {"type": "TemplateProcessing", "pair": [],
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "merges": ["Ċ Ċ"]}})");
  document["added_tokens"] = added;
  document["model"]["vocab"] = vocab;
  write_text(folder + "/tokenizer.json", document.dump());
  write_text(folder + "/tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  if (!chat_template.empty()) write_text(folder + "/chat_template.jinja", chat_template);
}

// A text with what is learned in [[ ]]; neither those nor two line ends in a row can be meant otherwise.
inline Example example_of(std::string_view marked) {
  const std::vector<std::string> tokens = handmade_tokens();
  Example example;
  bool learned = false;
  while (!marked.empty()) {
    if (marked.starts_with("[[") || marked.starts_with("]]")) {
      learned = marked.starts_with("[[");
      marked.remove_prefix(2);
      continue;
    }
    std::int32_t id = marked.starts_with("\n\n") ? 100
                      : marked[0] == '\n'        ? 99
                      : marked[0] == ' '         ? 98
                                                 : marked[0] - 0x21 + 4;
    std::size_t size = id == 100 ? 2 : 1;
    for (std::int32_t special = 0; special < 4; ++special) {
      const std::string& name = tokens[static_cast<std::size_t>(special)];
      if (marked.starts_with(name)) {
        id = special;
        size = name.size();
      }
    }
    if (!example.ids.empty()) example.labels.back() = learned ? id : -100;
    example.ids.push_back(id);
    example.labels.push_back(-100);
    marked.remove_prefix(size);
  }
  return example;
}

}  // namespace sluice
