// SPDX-License-Identifier: Apache-2.0
#include "data/row_problem.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::size_t kMaxProblemKinds = 32;

// Replaces indices: messages[17].role becomes messages[].role.
std::string without_numbers(const std::string& key) {
  std::string text;
  bool in_brackets = false;
  for (const char c : key) {
    if (c == ']') in_brackets = false;
    if (!in_brackets) text += c;
    if (c == '[') in_brackets = true;
  }
  return text;
}

}  // namespace

std::string RowProblem::text() const {
  return key.empty() ? fmt::format("{}:{}: {}", file, line, what) : fmt::format("{}:{}:{}: {}", file, line, key, what);
}

void RowProblems::add(RowProblem problem) {
  ++count_;
  const std::string key = without_numbers(problem.key);
  const auto known = std::find_if(kinds_.begin(), kinds_.end(), [&](const RowProblemKind& kind) {
    return kind.key == key && kind.what == problem.what;
  });
  if (known != kinds_.end()) {
    ++known->num_rows;
  } else if (kinds_.size() < kMaxProblemKinds) {
    kinds_.push_back({key, problem.what, 1});
  }
  if (first_.size() < max_kept_) first_.push_back(std::move(problem));
}

}  // namespace sluice
