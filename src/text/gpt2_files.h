// SPDX-License-Identifier: Apache-2.0
// vocab.json and merges.txt: how GPT-2's tokenizer was saved before tokenizer.json, and how OPT still has it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "text/json_view.h"
#include "text/tokenizer_parts.h"

namespace sluice {

// In the roles of bos, eos and unk that no file gives to another.
inline constexpr const char* kGpt2EndOfText = "<|endoftext|>";

bool has_gpt2_files(const std::filesystem::path& folder);

// Throws FormatError where the files are damaged, InvalidInput where tokenizer_config.json names another kind.
// The config is that file's, if there is one.
std::unique_ptr<TokenizerParts> make_gpt2_parts(const std::filesystem::path& folder,
                                                const std::optional<JsonView>& config);

}  // namespace sluice
