// SPDX-License-Identifier: Apache-2.0
#include "data/held_out.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/random.h"

namespace sluice {
namespace {

// So that the same seed does not make the split and the order of epochs from the same numbers.
constexpr std::uint64_t kSplitSalt = 0x5E1DD0A7A5E7ULL;

std::size_t num_held_out(std::size_t num_examples, double val_set_size) {
  if (!(val_set_size >= 0) || val_set_size > 4e9 || (val_set_size >= 1 && val_set_size != std::floor(val_set_size))) {
    throw InvalidInput(fmt::format(
        "val_set_size must be a fraction below 1, such as 0.05, or a whole number of examples, got {}", val_set_size));
  }
  if (val_set_size == 0) return 0;
  if (val_set_size >= 1) return static_cast<std::size_t>(val_set_size);
  return std::max<std::size_t>(
      1, static_cast<std::size_t>(std::llround(val_set_size * static_cast<double>(num_examples))));
}

}  // namespace

ExampleSplit split_examples(std::size_t num_examples, double val_set_size, std::uint64_t seed) {
  if (num_examples >= std::numeric_limits<std::uint32_t>::max()) {
    throw InvalidInput(fmt::format("a data set of {} examples is too large; the most is 4294967294", num_examples));
  }
  const std::size_t num_wanted = num_held_out(num_examples, val_set_size);
  if (num_wanted >= num_examples) {
    throw InvalidInput(
        fmt::format("holding out {} of {} examples (val_set_size {}) leaves none to train on; make val_set_size "
                    "smaller, or add data",
                    num_wanted, num_examples, val_set_size));
  }
  ExampleSplit split;
  split.held_out.reserve(num_wanted);
  split.train.reserve(num_examples - num_wanted);
  Random random(seed ^ kSplitSalt);
  for (std::size_t i = 0; i < num_examples; ++i) {
    // Every set of that size is as likely as any other.
    const bool hold = random.below(num_examples - i) < num_wanted - split.held_out.size();
    (hold ? split.held_out : split.train).push_back(static_cast<std::uint32_t>(i));
  }
  return split;
}

}  // namespace sluice
