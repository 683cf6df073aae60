// SPDX-License-Identifier: Apache-2.0
// "did you mean": the word of a list that is closest to one that was mistyped.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

// Insertions, deletions and replacements that make `a` into `b`, and swaps of two neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b);

// Nothing where none is close: within a third of the word's length, or two letters, or begun with the word. Of several
// the first.
std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> words);

}  // namespace sluice
