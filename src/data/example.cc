// SPDX-License-Identifier: Apache-2.0
#include "data/example.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {

std::size_t Example::num_labels() const {
  return labels.size() - static_cast<std::size_t>(std::count(labels.begin(), labels.end(), kNoLabel));
}

Example make_example(const MarkedTokens& tokens, std::size_t begin, std::size_t end) {
  CHECK(begin <= end && end <= tokens.ids.size(), "an example is a part of its document");
  Example example;
  example.ids.assign(tokens.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                     tokens.ids.begin() + static_cast<std::ptrdiff_t>(end));
  example.labels.assign(example.ids.size(), kNoLabel);
  for (std::size_t i = begin + 1; i < end; ++i) {
    if (tokens.learned[i]) example.labels[i - begin - 1] = tokens.ids[i];
  }
  return example;
}

}  // namespace sluice
