// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {

double median(std::vector<double> values) {
  CHECK(!values.empty(), "a median has values");
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace sluice
