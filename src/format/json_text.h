// SPDX-License-Identifier: Apache-2.0
// JSON from files that somebody else wrote: bounded in size, and wrong JSON is one sentence with the place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace sluice {

// `where` names the text in failures (a path). Throws FormatError where the text is not JSON.
nlohmann::json parse_json(std::string_view text, const std::string& where);

// The whole file. Throws IoError where it cannot be read, FormatError where it is larger than `max_bytes` or not JSON.
nlohmann::json read_json_file(const std::string& path, std::uint64_t max_bytes);

}  // namespace sluice
