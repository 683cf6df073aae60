// SPDX-License-Identifier: Apache-2.0
// Products of bf16 tiles on tensor cores, by warps of their own: a warp multiplies 16 rows with columns in groups of 8,
// 16 terms at a time, and sums in float. Lane = 4 g + t of the warp holds, of 16 x 8 sums, [g][2t], [g][2t + 1],
// [g + 8][2t] and [g + 8][2t + 1]. Tiles lie in shared memory by rows, filled by asynchronous copies.
#pragma once

#include <cstdint>

#include "ops/cuda/element.cuh"

namespace sluice::cuda {

// Rows of kDim elements; 16 bytes more between them put the 8 rows that a matrix load reads into different banks.
template <int kDim>
constexpr int kTilePitch = kDim + 8;

template <int kRows, int kDim>
constexpr int kTileElements = kRows* kTilePitch<kDim>;

__device__ inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

// ---- Asynchronous copies ----

// 16 bytes, or zeros.
__device__ inline void copy_16_async(void* to, const void* from, bool is_there) {
  const int size = is_there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from), "r"(size));
}
__device__ inline void copy_4_async(void* to, const void* from, bool is_there) {
  const int size = is_there ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(to)), "l"(from), "r"(size));
}
__device__ inline void end_copy_group() { asm volatile("cp.async.commit_group;\n"); }
// All but the last kLeft groups have arrived, of this thread's.
template <int kLeft>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLeft) : "memory");
}

// ---- Fragments ----

__device__ inline void load_matrices(std::uint32_t (&to)[4], const Bf16* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(at))
               : "memory");
}
__device__ inline void load_transposed(std::uint32_t (&to)[4], const Bf16* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(at))
               : "memory");
}

__device__ inline void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

// ---- Products of a warp ----

// sums = a b^T: a has the warp's 16 rows, b 8 * kBlocks rows, both kDim long.
template <int kDim, int kBlocks>
__device__ inline void multiply_rows(float (&sums)[kBlocks][4], const Bf16* a, const Bf16* b) {
  static_assert(kBlocks % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Bf16* const a_at = a + lane % 16 * kTilePitch<kDim> + lane / 16 * 8;
  const Bf16* const b_at = b + (lane / 16 * 8 + lane % 8) * kTilePitch<kDim> + lane / 8 % 2 * 8;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
    for (int at = 0; at < 4; ++at) sums[block][at] = 0;
  }
#pragma unroll
  for (int col = 0; col < kDim; col += 16) {
    std::uint32_t left[4];
    load_matrices(left, a_at + col);
#pragma unroll
    for (int block = 0; block < kBlocks; block += 2) {
      std::uint32_t right[4];
      load_matrices(right, b_at + block * 8 * kTilePitch<kDim> + col);
      multiply_add(sums[block], left, right[0], right[1]);
      multiply_add(sums[block + 1], left, right[2], right[3]);
    }
  }
}

// sums += w b, w being 16 x 8 kBlocks as sums of a product (rounded to bf16), b 8 * kBlocks rows of kDim.
template <int kDim, int kBlocks>
__device__ inline void add_weighted(float (&sums)[kDim / 8][4], const float (&w)[kBlocks][4], const Bf16* b) {
  static_assert(kBlocks % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Bf16* const b_at = b + lane % 16 * kTilePitch<kDim> + lane / 16 * 8;
#pragma unroll
  for (int block = 0; block < kBlocks; block += 2) {
    const std::uint32_t left[4] = {pack_bf16(w[block][0], w[block][1]), pack_bf16(w[block][2], w[block][3]),
                                   pack_bf16(w[block + 1][0], w[block + 1][1]),
                                   pack_bf16(w[block + 1][2], w[block + 1][3])};
#pragma unroll
    for (int col = 0; col < kDim; col += 16) {
      std::uint32_t right[4];
      load_transposed(right, b_at + block * 8 * kTilePitch<kDim> + col);
      multiply_add(sums[col / 8], left, right[0], right[1]);
      multiply_add(sums[col / 8 + 1], left, right[2], right[3]);
    }
  }
}

}  // namespace sluice::cuda
