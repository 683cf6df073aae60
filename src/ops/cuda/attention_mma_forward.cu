// SPDX-License-Identifier: Apache-2.0
// The forward on tensor cores. A block owns a tile of rows, a warp 16 of them; tiles of keys and values come by, the
// next being copied while this one is multiplied. Weights stay in registers: the sums of one product are the operand of
// the next.
#include "ops/cuda/attention_kernels.h"
#include "ops/cuda/attention_mma.cuh"

namespace sluice::cuda {
namespace {

template <int kDim>
struct Cut {
  static constexpr int kWarps = kDim > 128 ? 4 : 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRows = 16 * kWarps;
  static constexpr int kKeys = kDim > 128 ? 32 : 64;
  static constexpr int kSharedBytes = 2 * (kTileElements<kRows, kDim> + 4 * kTileElements<kKeys, kDim>);
};

__device__ float max_over_quad(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, 2));
}
__device__ float sum_over_quad(float value) {
  value += __shfl_xor_sync(0xFFFFFFFFU, value, 1);
  return value + __shfl_xor_sync(0xFFFFFFFFU, value, 2);
}

template <int kDim>
__global__ void __launch_bounds__(Cut<kDim>::kThreads, kDim > 128 ? 1 : 2)
    forward_kernel(const AttentionArgs args, const TileTable table) {
  using C = Cut<kDim>;
  constexpr int kBlocks = C::kKeys / 8;
  constexpr int kKeyTile = kTileElements<C::kKeys, kDim>;
  extern __shared__ uint4 shared[];
  Bf16* const q = reinterpret_cast<Bf16*>(shared);
  Bf16* const k = q + kTileElements<C::kRows, kDim>;  // two tiles, used in turn
  Bf16* const v = k + 2 * kKeyTile;

  const TileOwner owner = find_tile<true>(args, table);
  const Log2Scores log2_score(args);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int first_row = owner.tile * C::kRows;
  const int past_row = min(first_row + C::kRows, owner.num_rows());
  const TileOwner::Range keys = owner.keys_seen_by(first_row, past_row);
  const int warp_row = first_row + 16 * warp;
  const int query[2] = {(warp_row + g) / args.group, (warp_row + g + 8) / args.group};
  const Bf16* const warp_q = q + 16 * warp * kTilePitch<kDim>;

  const auto copy_keys = [&](int first, int slot) {
    copy_keys_async<C::kKeys, kDim, C::kThreads>(k + slot * kKeyTile, args.k, owner, first, args.head_dim);
    copy_keys_async<C::kKeys, kDim, C::kThreads>(v + slot * kKeyTile, args.v, owner, first, args.head_dim);
    end_copy_group();
  };

  float sums[kDim / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY};
  float total[2] = {0, 0};
  int first = keys.begin / C::kKeys * C::kKeys;
  copy_rows_async<C::kRows, kDim, C::kThreads>(q, args.q, owner, first_row, args.head_dim);
  copy_keys(first, 0);
  for (int slot = 0; first < keys.end; first += C::kKeys, slot ^= 1) {
    if (first + C::kKeys < keys.end) {
      copy_keys(first + C::kKeys, slot ^ 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    if (warp_row < past_row) {
      float scores[kBlocks][4];
      multiply_rows<kDim>(scores, warp_q, k + slot * kKeyTile);
      const bool is_masked = !owner.all_see_all(warp_row, min(warp_row + 16, past_row), first, first + C::kKeys);
      float row_max[2] = {largest[0], largest[1]};
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
        for (int at = 0; at < 4; ++at) {
          float score = log2_score(scores[block][at]);
          if (is_masked) {
            const int key = first + 8 * block + 2 * t + at % 2;
            const bool is_seen = key >= owner.first_key(query[at / 2]) && key <= owner.last_key(query[at / 2]) &&
                                 key < owner.segment.k_count;
            if (!is_seen) score = -INFINITY;
          }
          scores[block][at] = score;
          row_max[at / 2] = fmaxf(row_max[at / 2], score);
        }
      }
      float base[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        row_max[half] = max_over_quad(row_max[half]);
        base[half] = row_max[half] == -INFINITY ? 0 : row_max[half];  // nothing seen yet
        const float factor = exp2f(largest[half] - base[half]);
        largest[half] = row_max[half];
        total[half] *= factor;
#pragma unroll
        for (int block = 0; block < kDim / 8; ++block) {
          sums[block][2 * half] *= factor;
          sums[block][2 * half + 1] *= factor;
        }
      }
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
        for (int at = 0; at < 4; ++at) {
          scores[block][at] = exp2f(scores[block][at] - base[at / 2]);
          total[at / 2] += scores[block][at];
        }
      }
      add_weighted<kDim>(sums, scores, v + slot * kKeyTile);
    }
    __syncthreads();
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = sum_over_quad(total[half]);
    const int row = warp_row + g + 8 * half;
    if (row >= past_row) continue;
    write_head<kDim>(args.out, owner.row_at(args.out, row, args.head_dim), args.head_dim, sums, half, 1 / sum);
    if (args.log_sum_exp != nullptr && t == 0) {
      args.log_sum_exp[owner.statistic_at(row, args.num_tokens)] = (largest[half] + log2f(sum)) * kLn2;
    }
  }
}

}  // namespace

void attention_forward_on_tensor_cores(CudaStream& stream, const AttentionForward& args) {
  const AttentionArgs on_card = attention_args(args);
  with_tile_dim(args.shape.head_dim, [&](auto dim) {
    using C = Cut<dim.value>;
    for_each_table(args.segments, TileOf::kRows, on_card.group, C::kRows, [&](const TileTable& table) {
      launch_tiles(stream, forward_kernel<dim.value>, C::kThreads, C::kSharedBytes, on_card, table);
    });
  });
}

}  // namespace sluice::cuda
