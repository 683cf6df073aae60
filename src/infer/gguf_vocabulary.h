// SPDX-License-Identifier: Apache-2.0
// A model's tokenizer and chat template as the keys that llama.cpp reads them from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/gguf_writer.h"
#include "format/hf_config.h"

namespace sluice {

struct GgufVocabulary {
  std::string model;  // "gpt2", "llama"; "none" where the folder has no tokenizer
  std::vector<GgufEntry> entries;
  std::vector<std::string> notes;  // what the file cannot say, in a sentence each
};

// `num_rows` of the embedding: every row has a token, rows behind the last an unused one. Throws InvalidInput where the
// tokenizer has more tokens, or is of a kind that llama.cpp does not read.
GgufVocabulary make_gguf_vocabulary(const std::string& model_folder, const ConfigReader& config, std::int64_t num_rows);

}  // namespace sluice
