// SPDX-License-Identifier: Apache-2.0
// JSON from files that somebody else wrote: bounded in size, and wrong JSON is one sentence with the place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace sluice {

enum class DuplicateKeys {
  kLastWins,  // as Python reads it
  kRefuse,
};

// `where` names the text in failures (a path). Throws FormatError where the text is not JSON, or nested absurdly deep.
nlohmann::json parse_json(std::string_view text, const std::string& where,
                          DuplicateKeys duplicates = DuplicateKeys::kLastWins);

// The whole file. Throws IoError where it cannot be read, FormatError where it is larger than `max_bytes` or not JSON.
nlohmann::json read_json_file(const std::string& path, std::uint64_t max_bytes);

// The text of an object without the members `key` of its outermost level; all other bytes are preserved. A value other
// than an object is returned unchanged. Throws FormatError if the text is not JSON.
std::string without_member(std::string_view text, std::string_view key, const std::string& where);

inline constexpr std::size_t kMaxQuotedBytes = 96;
inline constexpr std::size_t kMaxSentenceBytes = 2000;

// Text of a file as part of a sentence: without control characters, cut where it is long.
std::string on_one_line(std::string_view text, std::size_t max_bytes = kMaxQuotedBytes);
std::string in_quotes(std::string_view text);
// A value as part of a sentence: `17`, `"yarn"`, `a list of 3`, `an object`, `null`.
std::string describe_json(const nlohmann::json& value);

}  // namespace sluice
