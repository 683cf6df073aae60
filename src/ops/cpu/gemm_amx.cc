// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_amx.h"

#include "ops/cpu/gemm_direct_kernel.h"
#include "ops/cpu/gemm_pack_avx512.h"
#include "ops/cpu/gemm_write_avx512.h"

HWY_PUSH_ATTRIBUTES("amx-tile,amx-bf16")
namespace sluice::cpu {
namespace {

// The instructions as assembly: compilers' own intrinsics take register numbers as literals, not as template arguments.
struct TileRegisters {
  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  static void load(const void* from, std::int64_t stride_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride_bytes), "i"(kTile) : "memory");
  }
  template <int kTile>
  static void store(void* to, std::int64_t stride_bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride_bytes), "i"(kTile) : "memory");
  }
  template <int kSums, int kRows, int kColumns>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kColumns));
  }
  static void enter() {
    static constexpr TileConfig kConfig;
    asm volatile("ldtilecfg %0" : : "m"(kConfig));
  }
  static void leave() { asm volatile("tilerelease"); }
};

}  // namespace
}  // namespace sluice::cpu
HWY_POP_ATTRIBUTES

namespace sluice::cpu {

// A panel of each operand (16 KiB) fits the L1 together, so that the one that is used again stays there. An L2 of 2 MiB
// is often that of two threads: a block's sums (256 KiB), a panel of k of each operand (64 and 256 KiB) and what is
// fetched for the next take less than half of it.
GemmKernel amx_kernel_without_unit() {
  return {.rows = kAmxSide,
          .columns = kAmxSide,
          .k_step = kAmxStepK,
          .panel_k = 256,
          .packed_bytes = 2,
          .max_local = 128,
          .max_shared = 512,
          .pack_both_bytes = 20 << 20,
          .local_cost = 48,
          .shared_cost = 32,
          .pack_rows = pack_row_tiles,
          .pack_columns = pack_column_tiles,
          .transpose = transpose_sums,
          .write = write_avx512};
}

GemmKernel amx_bf16_kernel() { return amx_kernel_on<TileRegisters>(); }
DirectKernel amx_direct_kernel() { return direct_kernel_on<TileRegisters>(); }

}  // namespace sluice::cpu
