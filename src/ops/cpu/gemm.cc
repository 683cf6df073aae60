// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm.h"

#include <algorithm>

#include "base/check.h"
#include "ops/cpu/gemm_amx.h"
#include "ops/cpu/gemm_avx512_bf16.h"
#include "ops/cpu/gemm_blocked.h"
#include "ops/cpu/gemm_small.h"
#include "ops/cpu/gemm_tiled.h"
#include "ops/cpu/gemm_vector.h"
#include "ops/cpu/gemm_write_avx512.h"

namespace sluice::cpu {
namespace {

GemmKernel kernel_of(GemmPath path, DType dtype) {
  switch (path) {
    case GemmPath::kBaseline:
      return baseline_kernel(dtype);
    case GemmPath::kAvx2:
      return avx2_kernel(dtype);
    case GemmPath::kAvx512:
      return avx512_kernel(dtype);
    case GemmPath::kAvx512Bf16:
      return avx512_bf16_kernel();
    case GemmPath::kAmxBf16:
      break;  // has tiles, not this
  }
  CHECK(false, "every path but that of tiles has a kernel");
}

decltype(GemmKernel::write) write_of(GemmPath path, DType dtype) {
  return path == GemmPath::kAmxBf16 ? write_avx512 : kernel_of(path, dtype).write;
}

}  // namespace

void gemm(WorkerTeam& team, const Gemm& args) { gemm(team, args, best_gemm_path(args.a.dtype())); }

void gemm(WorkerTeam& team, const Gemm& args, GemmPath path) {
  const std::vector<GemmPath>& paths = gemm_paths_available();
  CHECK(std::find(paths.begin(), paths.end(), path) != paths.end() && gemm_path_takes(path, args.a.dtype()),
        "the path is there and takes the operands");
  const GemmExtents extents = gemm_extents(args);
  if (extents.m == 0 || extents.n == 0) return;
  if (gemm_small_takes(args)) {
    gemm_small(team, args, path, write_of(path, args.a.dtype()));
  } else if (path == GemmPath::kAmxBf16) {
    gemm_tiled(team, args, amx_tiled_kernel());
  } else {
    gemm_blocked(team, args, kernel_of(path, args.a.dtype()));
  }
}

}  // namespace sluice::cpu
