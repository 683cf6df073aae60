// SPDX-License-Identifier: Apache-2.0
// Products on AMX tiles for tests on CPUs that have none: the tiles are emulated, what is around them is not.
#pragma once

#include <algorithm>
#include <vector>

#include "base/worker_team.h"
#include "ops/cpu/emulated_tiles.h"
#include "ops/cpu/gemm_amx.h"
#include "ops/cpu/gemm_blocked.h"
#include "ops/cpu/gemm_direct.h"
#include "ops/cpu/gemm_direct_plan.h"
#include "ops/cpu/gemm_path.h"

namespace sluice::cpu {

inline bool can_pack_tiles() {
  const std::vector<GemmPath>& paths = gemm_paths_available();
  return std::find(paths.begin(), paths.end(), GemmPath::kAvx512) != paths.end();
}

// As gemm() chooses for AMX.
inline void run_on_tiles(WorkerTeam& team, const Gemm& args, const DirectKernel& kernel) {
  if (gemm_direct_takes(args)) {
    gemm_direct(team, args, kernel);
  } else {
    gemm_blocked(team, args, amx_kernel_on<EmulatedTiles>());
  }
}

}  // namespace sluice::cpu
