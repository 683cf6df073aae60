// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the word of a list with the least edit distance to a mistyped word.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

// Damerau-Levenshtein distance: insertions, deletions, replacements and swaps of adjacent characters.
std::size_t edit_distance(std::string_view a, std::string_view b);

// nullopt: no word is close. A word is close within an edit distance of a third of its length or of two, or if `word`
// is a prefix of it. Ties go to the first.
std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> words);

}  // namespace sluice
