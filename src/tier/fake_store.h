// SPDX-License-Identifier: Apache-2.0
// A store on a fake disk, and slices whose every byte follows from a seed: what the tests of this room share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/fake/fake_disk.h"
#include "tier/slice_store.h"

namespace sluice {

struct FakeStore {
  explicit FakeStore(std::size_t num_drives = 1);

  StoreHome home();
  static StoreShape shape(std::size_t num_drives);  // small chunks, unequal weights

  FakeDisk disk;
  FakeEngine engine;
  std::vector<std::string> directories;
};

struct TestSlice {
  std::uint64_t seed = 0;
  std::uint64_t size_bytes = 0;

  std::vector<std::byte> bytes() const;
  bool operator==(const TestSlice&) const = default;
};

// Writes a slice and stages it.
void put(SliceStore& store, const std::string& key, const TestSlice& slice);
// Reads and verifies; throws what the store throws.
std::vector<std::byte> get(const SliceStore& store, const SliceVersion& version);
// Whether the newest version of `key` is exactly this.
bool holds(const SliceStore& store, const std::string& key, const TestSlice& slice);
// The bytes that everything the store keeps must take, counted from what it lists.
std::uint64_t listed_bytes(const SliceStore& store);

}  // namespace sluice
