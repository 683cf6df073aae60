// SPDX-License-Identifier: Apache-2.0
// What a path's multiplications could reach on this CPU: its instruction, on random numbers, in a loop that touches no
// memory, on all threads of a team at once.
#pragma once

#include <cstdint>

#include "base/worker_team.h"
#include "ops/cpu/gemm_path.h"

namespace sluice {

class PeakMeter {
 public:
  // The path is available.
  PeakMeter(WorkerTeam& team, GemmPath path);

  // Now, over some 20 milliseconds.
  double gflops() const;

 private:
  WorkerTeam& team_;
  GemmPath path_;
  std::int64_t num_rounds_ = 0;  // of the loop
};

// The same loop on tiles of zeros, which take less power: no product of anything else gets there, but it shows how far
// the CPU is throttled. AMX is available.
double measure_amx_zeros_gflops(WorkerTeam& team);

}  // namespace sluice
