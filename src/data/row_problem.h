// SPDX-License-Identifier: Apache-2.0
// What is wrong with rows of a data set: one sentence each, with the place. All are counted, the first ones are kept.
// Plain values; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sluice {

struct RowProblem {
  std::string file;
  std::uint64_t line = 0;  // where the row begins, from 1
  std::string key;         // messages[2].role; empty where it is about the row as a whole
  std::string what;        // what is wrong and how to mend it

  // file:line:key: what
  std::string text() const;
};

// Thrown by what looks into a single row and does not know where it stands.
class BadRow : public InvalidInput {
 public:
  BadRow(std::string key, const std::string& what) : InvalidInput(what), key_(std::move(key)) {}
  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

// Rows with the same problem.
struct RowProblemKind {
  std::string key;  // messages[].role
  std::string what;
  std::uint64_t num_rows = 0;
};

class RowProblems {
 public:
  explicit RowProblems(std::size_t max_kept = 20) : max_kept_(max_kept) {}

  void add(RowProblem problem);
  const std::vector<RowProblem>& first() const { return first_; }
  std::uint64_t count() const { return count_; }
  // All problems grouped by kind, in order of first occurrence; the number of kinds is bounded.
  const std::vector<RowProblemKind>& kinds() const { return kinds_; }

 private:
  std::size_t max_kept_;
  std::vector<RowProblem> first_;
  std::vector<RowProblemKind> kinds_;
  std::uint64_t count_ = 0;
};

}  // namespace sluice
