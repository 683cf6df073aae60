// SPDX-License-Identifier: Apache-2.0
// What a model learns from: the tokens of one document, and what each of them should predict. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

// For tokens that should predict nothing; the label that losses leave out everywhere.
inline constexpr std::int32_t kNoLabel = -100;

struct Example {
  std::vector<std::int32_t> ids;
  // labels[i] is ids[i + 1] where that token is learned, else kNoLabel; the last one always is.
  std::vector<std::int32_t> labels;

  std::size_t num_labels() const;
  friend bool operator==(const Example&, const Example&) = default;
};

// Tokens of a document in order, each with whether it is to be learned.
struct MarkedTokens {
  std::vector<std::int32_t> ids;
  std::vector<bool> learned;

  void add(std::int32_t id, bool is_learned) {
    ids.push_back(id);
    learned.push_back(is_learned);
  }
};

// From the tokens [begin, end).
Example make_example(const MarkedTokens& tokens, std::size_t begin, std::size_t end);

}  // namespace sluice
