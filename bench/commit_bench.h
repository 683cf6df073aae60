// SPDX-License-Identifier: Apache-2.0
// How fast new versions of slices are made on the device, saved through the lanes and committed, step after step, as a
// training run would.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "io/choose_engine.h"

namespace sluice {

struct CommitBenchOptions {
  std::vector<std::string> directories;
  std::uint64_t size_bytes = 0;  // of one step's slices
  std::uint64_t num_steps = 0;
  std::uint64_t host_bytes = 0;
  std::uint64_t device_bytes = 0;
  EngineWish engine = EngineWish::kAuto;
  std::function<void(std::uint64_t step)> on_commit = [](std::uint64_t) {};   // called once the step is durable
  enum class Afterwards { kRemove, kKeep } afterwards = Afterwards::kRemove;  // kKeep: goes on with a store it finds
};

struct CommitBenchResult {
  std::string engine;
  std::uint64_t first_step = 0;  // where the store that was found had got to
  std::uint64_t last_step = 0;
  double gb_per_s = 0;
  double commit_s = 0;  // median time of the commit itself
  std::vector<std::uint64_t> drive_bytes_written;
};

// Interrupted, it ends after the step in hand; what was committed stays if the store is kept.
CommitBenchResult run_commit_bench(const CommitBenchOptions& options, const ProgressSink& progress);

}  // namespace sluice
