// SPDX-License-Identifier: Apache-2.0
// A hash table from pairs of 32-bit numbers to a value: open addressing in one block of memory, since looking up merges
// is most of what byte-pair encoding does. Filled once, then read by any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace sluice {

template <typename Value>
class PairTable {
 public:
  explicit PairTable(std::size_t num_pairs)
      : slots_(std::bit_ceil(2 * num_pairs + 2)), shift_(64 - std::countr_zero(slots_.size())) {}

  // The first value of a pair stays or the last one wins, as the caller says.
  enum class IfThere { kKeep, kReplace };

  // No pair of two kNone.
  void insert(std::uint32_t left, std::uint32_t right, Value value, IfThere if_there) {
    Slot& slot = slots_[place_of(left, right)];
    if (slot.key != kFree && if_there == IfThere::kKeep) return;
    slot = {key_of(left, right), value};
  }

  const Value* find(std::uint32_t left, std::uint32_t right) const {
    const Slot& slot = slots_[place_of(left, right)];
    return slot.key == kFree ? nullptr : &slot.value;
  }

 private:
  static constexpr std::uint64_t kFree = std::numeric_limits<std::uint64_t>::max();

  struct Slot {
    std::uint64_t key = kFree;
    Value value{};
  };

  static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) {
    return (static_cast<std::uint64_t>(left) << 32) | right;
  }

  std::size_t place_of(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t key = key_of(left, right);
    // Fibonacci hashing: the high bits of the product depend on all of the key's.
    std::size_t place = ((key ^ (key >> 29)) * 0x9E3779B97F4A7C15U) >> shift_;
    while (slots_[place].key != kFree && slots_[place].key != key) place = (place + 1) & (slots_.size() - 1);
    return place;
  }

  std::vector<Slot> slots_;
  int shift_;
};

}  // namespace sluice
