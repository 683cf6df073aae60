// SPDX-License-Identifier: Apache-2.0
// Which examples are kept from training, to measure on. A pure function of the number of examples and a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

struct ExampleSplit {
  std::vector<std::uint32_t> train;     // indices, rising
  std::vector<std::uint32_t> held_out;  // indices, rising
};

// `val_set_size`: below 1 a fraction of the examples (one at least, unless it is 0), else how many. Throws InvalidInput
// where it is neither, or leaves nothing to train on.
ExampleSplit split_examples(std::size_t num_examples, double val_set_size, std::uint64_t seed);

}  // namespace sluice
