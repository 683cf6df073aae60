// SPDX-License-Identifier: Apache-2.0
#include "tier/fake_store.h"

#include <algorithm>

#include "base/page_memory.h"
#include "base/random.h"
#include "base/units.h"

namespace sluice {

FakeStore::FakeStore(std::size_t num_drives) : engine(disk) {
  for (std::size_t i = 0; i < num_drives; ++i) directories.push_back("/drive" + std::to_string(i));
}

StoreHome FakeStore::home() {
  return {.files = disk,
          .engine = engine,
          .caching = Caching::kDirect,
          .directories = directories,
          .growth_bytes = 64 * kKiB};
}

StoreShape FakeStore::shape(std::size_t num_drives) {
  StoreShape shape;
  shape.chunk_bytes = 8 * kKiB;
  for (std::size_t i = 0; i < num_drives; ++i) shape.weights.push_back(static_cast<std::uint32_t>(num_drives - i));
  return shape;
}

std::vector<std::byte> TestSlice::bytes() const {
  std::vector<std::byte> bytes(size_bytes);
  Random(seed).fill(bytes);
  return bytes;
}

void put(SliceStore& store, const std::string& key, const TestSlice& slice) {
  SliceWriter writer = store.begin(key, slice.size_bytes);
  const PageMemory memory(writer.stored_bytes());
  const std::vector<std::byte> bytes = slice.bytes();
  std::copy(bytes.begin(), bytes.end(), memory.bytes().begin());
  // In two parts, as lanes do.
  const std::uint64_t half = std::min(round_up(slice.size_bytes / 2, store.chunk_bytes()), writer.stored_bytes());
  if (half > 0) writer.write(0, memory.bytes().first(half)).wait();
  if (half < writer.stored_bytes())
    writer.write(half, memory.bytes().subspan(half, writer.stored_bytes() - half)).wait();
  writer.finish();
}

std::vector<std::byte> get(const SliceStore& store, const SliceVersion& version) {
  const PageMemory memory(version.stored_bytes());
  const std::span<std::byte> stored = memory.bytes().first(version.stored_bytes());
  store.read(version, 0, stored).wait();
  store.verify(version, 0, stored);
  return {stored.begin(), stored.begin() + static_cast<std::ptrdiff_t>(version.size_bytes())};
}

bool holds(const SliceStore& store, const std::string& key, const TestSlice& slice) {
  const SliceRef version = store.find(key);
  return version && get(store, *version) == slice.bytes();
}

std::uint64_t listed_bytes(const SliceStore& store) {
  std::uint64_t bytes = 0;
  for (const SliceRef& version : store.kept()) bytes += version->stored_bytes();
  return bytes;
}

}  // namespace sluice
