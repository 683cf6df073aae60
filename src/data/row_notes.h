// SPDX-License-Identifier: Apache-2.0
// What rows carry that training leaves out although the rows are used: each kind once, with how many rows it is about.
// Kinds are bounded, since keys are the user's. Plain values; one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// Of one row.
struct RowLeftovers {
  std::vector<std::string> ignored_keys;  // of the row itself
  std::vector<std::string> notes;         // "the chat template does not write ...": follows "12 rows: "

  void add_note(std::string note);  // once a row
};

class RowNotes {
 public:
  void add(const RowLeftovers& row);
  // A sentence for each kind of note, and one for all keys that were ignored.
  std::vector<std::string> sentences() const;

 private:
  using Counts = std::vector<std::pair<std::string, std::uint64_t>>;  // in the order they came up

  Counts notes_;
  Counts ignored_keys_;
  bool any_left_out_ = false;
};

}  // namespace sluice
