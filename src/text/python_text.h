// SPDX-License-Identifier: Apache-2.0
// What Python's str does, on UTF-8: whitespace, case, splitting and slicing by code points. Text must be valid UTF-8.
// Case follows Unicode's simple mappings and the expanding ones of Latin text (ß becomes SS). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

bool is_python_space(char32_t code_point);
// Whether repr() shows it as it is.
bool is_python_printable(char32_t code_point);
// A letter or a digit of any script, or an underscore: \w.
bool is_python_word_character(char32_t code_point);

enum class TextSides { kBoth, kLeft, kRight };
// Without `chars` whitespace goes, with them every code point that is among them.
std::string_view strip(std::string_view text, std::optional<std::string_view> chars, TextSides sides);

enum class SplitFrom { kLeft, kRight };
// At most `max_splits` splits, any number where it is negative. `separator` must not be empty.
std::vector<std::string_view> split(std::string_view text, std::string_view separator, std::int64_t max_splits,
                                    SplitFrom from);
// At runs of whitespace; no part is empty.
std::vector<std::string_view> split_whitespace(std::string_view text, std::int64_t max_splits, SplitFrom from);
enum class LineEnds { kDrop, kKeep };
// There are no more, and in most texts not many fewer.
std::size_t most_lines(std::string_view text);
std::vector<std::string_view> split_lines(std::string_view text, LineEnds ends);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
// For comparisons: ß becomes ss.
std::string to_casefolded(std::string_view text);
std::string to_capitalized(std::string_view text);
// A capital at the start of every run of letters: "they're" becomes "They'Re".
std::string to_title(std::string_view text);
std::string to_swapped_case(std::string_view text);

enum class TextClass { kAlpha, kDecimal, kDigit, kNumeric, kAlphanumeric, kSpace, kUpper, kLower };
// isalpha() and so on: false for empty text.
bool is_all(std::string_view text, TextClass wanted);

std::size_t num_code_points(std::string_view text);
// The byte at which each code point starts, and the size of the text at the end.
std::vector<std::size_t> code_point_offsets(std::string_view text);

// As the methods of std::string_view, but in time that grows with the text alone.
std::size_t find_text(std::string_view text, std::string_view wanted);
std::size_t find_last_text(std::string_view text, std::string_view wanted);

std::string replace_all(std::string_view text, std::string_view from, std::string_view to, std::int64_t max_count);

}  // namespace sluice
