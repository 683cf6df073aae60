// SPDX-License-Identifier: Apache-2.0
// The files of a tokenizer: read whole with a limit on their size, and parsed with one sentence where they are damaged.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace sluice {

// Throws IoError where it cannot be read, FormatError where it is larger than any such file.
std::string read_tokenizer_file(const std::string& path);
// Throws FormatError that names `where` and the byte. The document has its keys in the order of the alphabet;
// `on_key(depth, key)` is told of them as they stand in the file, those of the outermost object at depth 1.
using OnKey = std::function<void(int depth, const std::string& key)>;
nlohmann::json parse_tokenizer_file(std::string_view text, const std::string& where, const OnKey& on_key = {});

}  // namespace sluice
