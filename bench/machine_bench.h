// SPDX-License-Identifier: Apache-2.0
// This machine as a plan sees it: how fast blocks, attention, copies, AdamW and the drives are here, each measured
// alone for a moment. The figures are kept in a file, so that they are taken once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "device/choose_device.h"
#include "model/architecture.h"
#include "plan/machine.h"

namespace sluice {

struct MachineBenchOptions {
  std::vector<std::string> directories;  // one on each drive; may be none
  std::size_t num_threads = 1;
  const Architecture* arch = nullptr;  // whose blocks are timed; null: a usual one
  std::int64_t batch_tokens = 0;       // that pass it at once
  // Where a card computes.
  DeviceChoice device;
  std::int64_t sequence_len = 0;    // of documents
  std::uint64_t scratch_bytes = 0;  // that its kernels will have
  ProgressSink progress;            // while it is measured
};

// Takes a few seconds. Throws InvalidInput if a directory is missing, IoError if it cannot be written, Cancelled if the
// user stops it.
Machine measure_machine(const MachineBenchOptions& options);

enum class Remeasure { kIfChanged, kAlways };

// Read from `cache_path` if it was measured before for the same processor, memory, threads, drives and block shape;
// otherwise measured and cached there (an empty path: not cached). The drives' free space is always current.
Machine this_machine(const MachineBenchOptions& options, const std::string& cache_path, Remeasure remeasure);

}  // namespace sluice
