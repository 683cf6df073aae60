// SPDX-License-Identifier: Apache-2.0
// vocab.json and merges.txt: how GPT-2's tokenizer was saved before tokenizer.json, and how OPT still has it.
#pragma once

#include <filesystem>
#include <memory>

#include "text/tokenizer_parts.h"

namespace sluice {

bool has_gpt2_files(const std::filesystem::path& folder);

// Throws FormatError where the files are damaged, InvalidInput where tokenizer_config.json names another kind.
std::unique_ptr<TokenizerParts> make_gpt2_parts(const std::filesystem::path& folder);

}  // namespace sluice
