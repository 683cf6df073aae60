// SPDX-License-Identifier: Apache-2.0
// Reads everything a store keeps and says what is not as it should be. Changes nothing unless asked to repair, and then
// only what can be mended without loss: headers, journal copies, leftovers of a crash. Damaged slices are named, never
// dropped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "tier/slice_store.h"

namespace sluice {

enum class Repair { kNo, kYes };

struct StoreFinding {
  enum class Kind {
    kDamage,      // bytes are not what was written
    kUnfinished,  // what a crash left; opening the store mends it
    kOrphan,      // a file that belongs to nothing
  };
  Kind kind = Kind::kDamage;
  std::string text;
  bool repaired = false;
};

struct StoreReport {
  std::uint64_t sequence = 0;
  std::string note;
  std::uint64_t num_slices = 0;
  std::uint64_t num_snapshots = 0;
  std::uint64_t kept_bytes = 0;  // by commits and snapshots
  std::uint64_t file_bytes = 0;
  std::uint64_t verified_bytes = 0;
  std::vector<std::uint64_t> drive_bytes_written;
  std::vector<StoreFinding> findings;

  // No damage is left.
  bool whole() const;
};

// Throws as open_drives() does for what is not a store, and Cancelled when interrupted.
StoreReport check_store(const StoreHome& home, Repair repair, const ProgressSink& progress);

}  // namespace sluice
