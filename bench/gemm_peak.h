// SPDX-License-Identifier: Apache-2.0
// What a path's multiplications could reach on this CPU: its instruction, on random numbers, in a loop on all threads
// of a team at once that touches no memory; and for AMX, whose tiles take power to load, also one that loads them.
#pragma once

#include <cstdint>

#include "base/worker_team.h"
#include "ops/cpu/gemm_path.h"

namespace sluice {

enum class PeakLoop : std::uint8_t {
  kAlone,   // the same registers again and again
  kLoaded,  // AMX: two tiles of rows and two of columns come from the L1 for four products, which is as few as eight
            // tile registers allow: every product has to do that much
};

class PeakMeter {
 public:
  // The path is available, and kLoaded is of AMX.
  PeakMeter(WorkerTeam& team, GemmPath path, PeakLoop loop = PeakLoop::kAlone);

  // Now, over some 20 milliseconds.
  double gflops() const;

 private:
  WorkerTeam& team_;
  GemmPath path_;
  PeakLoop loop_;
  std::int64_t num_rounds_ = 0;  // of the loop
};

// The same loop on tiles of zeros, which take less power: no product of anything else gets there, but it shows how far
// the CPU is throttled. AMX is available.
double measure_amx_zeros_gflops(WorkerTeam& team);

}  // namespace sluice
