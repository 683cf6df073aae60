// SPDX-License-Identifier: Apache-2.0
#include "data/row_notes.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "format/json_text.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxKinds = 32;

// Counts `what`; false if it is a new kind and there are kMaxKinds already.
bool count(std::vector<std::pair<std::string, std::uint64_t>>& counts, const std::string& what) {
  const auto found = std::find_if(counts.begin(), counts.end(), [&](const auto& entry) { return entry.first == what; });
  if (found != counts.end()) {
    ++found->second;
    return true;
  }
  if (counts.size() == kMaxKinds) return false;
  counts.emplace_back(what, 1);
  return true;
}

std::string rows_text(std::uint64_t num_rows) { return fmt::format("{} row{}", num_rows, num_rows == 1 ? "" : "s"); }

}  // namespace

void RowLeftovers::add_note(std::string note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
}

void RowNotes::add(const RowLeftovers& row) {
  for (const std::string& note : row.notes) any_left_out_ = !count(notes_, note) || any_left_out_;
  for (const std::string& key : row.ignored_keys) any_left_out_ = !count(ignored_keys_, key) || any_left_out_;
}

std::vector<std::string> RowNotes::sentences() const {
  std::vector<std::string> sentences;
  for (const auto& [note, num_rows] : notes_) sentences.push_back(fmt::format("{}: {}.", rows_text(num_rows), note));
  std::string keys;
  for (const auto& [key, num_rows] : ignored_keys_) {
    keys += fmt::format("{}{} ({})", keys.empty() ? "" : ", ", on_one_line(key), rows_text(num_rows));
  }
  if (!keys.empty()) sentences.push_back(fmt::format("Keys of rows that are ignored: {}.", keys));
  if (any_left_out_) sentences.emplace_back("There are more kinds of ignored keys and notes than are counted here.");
  return sentences;
}

}  // namespace sluice
