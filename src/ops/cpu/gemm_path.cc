// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_path.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"

namespace sluice {
namespace {

// Tile registers are large, so a process asks before it uses them (linux: Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_amx_bf16() {
  constexpr unsigned kAmxBf16 = 1U << 22;
  constexpr unsigned kAmxTile = 1U << 24;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (edx & kAmxBf16) != 0 && (edx & kAmxTile) != 0 && may_use_tiles();
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512cd") != 0;
}

std::vector<GemmPath> find_paths() {
  std::vector<GemmPath> paths{GemmPath::kBaseline};
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0) return paths;
  paths.push_back(GemmPath::kAvx2);
  if (!has_avx512()) return paths;
  paths.push_back(GemmPath::kAvx512);
  if (__builtin_cpu_supports("avx512bf16") != 0) {
    // Zen 4 does twice as many products with vdpbf16ps as with fused multiply-adds of f32, Emerald Rapids half as many.
    paths.insert(__builtin_cpu_is("intel") != 0 ? paths.end() - 1 : paths.end(), GemmPath::kAvx512Bf16);
  }
  // A CPU with AMX has AVX512_BF16 too; a virtual machine might hide it.
  if (__builtin_cpu_supports("avx512bf16") != 0 && has_amx_bf16()) paths.push_back(GemmPath::kAmxBf16);
  return paths;
}

}  // namespace

std::string_view name(GemmPath path) {
  switch (path) {
    case GemmPath::kBaseline:
      return "baseline";
    case GemmPath::kAvx2:
      return "avx2";
    case GemmPath::kAvx512:
      return "avx512";
    case GemmPath::kAvx512Bf16:
      return "avx512-bf16";
    case GemmPath::kAmxBf16:
      return "amx-bf16";
  }
  CHECK(false, "a path has a name");
}

const std::vector<GemmPath>& gemm_paths_available() {
  static const std::vector<GemmPath> kPaths = find_paths();
  return kPaths;
}

bool gemm_path_takes(GemmPath path, DType dtype) {
  return dtype == DType::kBF16 || (path != GemmPath::kAvx512Bf16 && path != GemmPath::kAmxBf16);
}

GemmPath best_gemm_path(DType dtype) {
  const std::vector<GemmPath>& paths = gemm_paths_available();
  const auto best =
      std::find_if(paths.rbegin(), paths.rend(), [&](GemmPath path) { return gemm_path_takes(path, dtype); });
  CHECK(best != paths.rend(), "the baseline takes every type");
  return *best;
}

}  // namespace sluice
