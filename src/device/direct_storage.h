// SPDX-License-Identifier: Apache-2.0
// Reads from drives straight into a device's memory, past the host's: what NVIDIA calls GPUDirect Storage. Few machines
// can, and it is not always faster (tier/direct_speed.h measures). Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sluice {

class DirectFile {
 public:
  virtual ~DirectFile() = default;
  // Fills device memory from `offset` of the file, both in whole blocks of 4 KiB. Blocks. Throws IoError.
  virtual void read(std::uint64_t offset, std::span<std::byte> into) = 0;
};

// Dies before its device.
class DirectStorage {
 public:
  virtual ~DirectStorage() = default;
  virtual std::unique_ptr<DirectFile> open(const std::string& path) = 0;
  // xxh3() (base/hash.h) of each chunk of device memory, the last of which may be shorter; whole blocks of 4 KiB all.
  // Blocks.
  virtual std::vector<std::uint64_t> chunk_sums(std::span<const std::byte> memory, std::uint64_t chunk_bytes) = 0;
};

enum class DirectWish : std::uint8_t { kAuto, kOff, kOn };  // auto: where it is faster on every drive

// Whether its library may also be used where the driver cannot have drives write to the device, and the library then
// goes through the host itself: slower than doing without, but the same bytes.
enum class DirectWay : std::uint8_t { kPastTheHost, kAnyhow };

struct DirectStorageFinding {
  std::unique_ptr<DirectStorage> storage;  // null: there is none
  std::string why_not;
};

}  // namespace sluice
