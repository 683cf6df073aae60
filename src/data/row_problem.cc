// SPDX-License-Identifier: Apache-2.0
#include "data/row_problem.h"

#include <fmt/format.h>

namespace sluice {

std::string RowProblem::text() const {
  return key.empty() ? fmt::format("{}:{}: {}", file, line, what) : fmt::format("{}:{}:{}: {}", file, line, key, what);
}

void RowProblems::add(RowProblem problem) {
  ++count_;
  if (first_.size() < max_kept_) first_.push_back(std::move(problem));
}

}  // namespace sluice
