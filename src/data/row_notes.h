// SPDX-License-Identifier: Apache-2.0
// Content that training leaves out of rows that it uses: each kind once, with its number of rows. The number of kinds
// is bounded, as keys are user input. Plain values; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// Left-out content of one row.
struct RowLeftovers {
  std::vector<std::string> ignored_keys;  // top-level keys of the row
  std::vector<std::string> notes;         // "the chat template does not write ...": follows "12 rows: "

  void add_note(std::string note);  // no-op if the row has it already
};

class RowNotes {
 public:
  void add(const RowLeftovers& row);
  // One sentence per kind of note, and one for all ignored keys.
  std::vector<std::string> sentences() const;

 private:
  using Counts = std::vector<std::pair<std::string, std::uint64_t>>;  // in order of first occurrence

  Counts notes_;
  Counts ignored_keys_;
  bool any_left_out_ = false;
};

}  // namespace sluice
