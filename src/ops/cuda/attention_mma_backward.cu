// SPDX-License-Identifier: Apache-2.0
// The backward on tensor cores: dQ by blocks that own rows, dK and dV by blocks that own keys. Both recompute weights
// from scores and log-sum-exp: P = exp(S - L), dS = P (dP - delta), with dP = dO V^T; dQ = dS K, dK = dS^T Q, dV = P^T
// dO. The owner of keys computes S^T and dP^T, so that P^T and dS^T are operands as they come. Where heads are so wide
// that sums of dK and dV do not both fit a warp's registers, two passes over the rows compute one each.
#include "device/cuda/cuda_device.h"
#include "ops/cuda/attention_kernels.h"
#include "ops/cuda/attention_mma.cuh"

namespace sluice::cuda {
namespace {

// `own` rows or keys of a block, `by` those that come by in tiles.
template <int kHeadDim, TileSize kSize = TileSize::kLarge>
struct Cut {
  static constexpr bool kIsSmall = kSize == TileSize::kSmall;
  static constexpr int kDim = kHeadDim;
  static constexpr int kWarps = kDim > 128 ? (kIsSmall ? 3 : 4) : (kIsSmall ? 7 : 8);
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kOwn = 16 * kWarps;
  static constexpr int kBy = kDim > 128 && kIsSmall ? 16 : 32;
  static constexpr int kSharedBytes = 2 * (2 * kTileElements<kOwn, kDim> + 4 * kTileElements<kBy, kDim>);
  // dK and dV also load two statistics per row, double-buffered.
  static constexpr int kSharedBytesOfKeys = kSharedBytes + 4 * 4 * kBy;
  // Minimum resident blocks per multiprocessor.
  static constexpr int kMinBlocks = kDim > 128 || kIsSmall ? 1 : 2;
  static constexpr int kMinBlocksOfKeys = kDim > 64 || kIsSmall ? 1 : 2;

  static constexpr CardRange cards() { return cards_for(kSize, Cut<kHeadDim>::kSharedBytesOfKeys); }
};

template <typename C>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    dq_kernel(const AttentionArgs args, const TileTable table) {
  constexpr int kDim = C::kDim;
  constexpr int kBlocks = C::kBy / 8;
  constexpr int kKeyTile = kTileElements<C::kBy, kDim>;
  extern __shared__ uint4 shared[];
  Bf16* const q = reinterpret_cast<Bf16*>(shared);
  Bf16* const dout = q + kTileElements<C::kOwn, kDim>;
  Bf16* const k = dout + kTileElements<C::kOwn, kDim>;  // two tiles, used in turn
  Bf16* const v = k + 2 * kKeyTile;

  const TileOwner owner = find_tile<true>(args, table);
  const Log2Scores log2_score(args);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int first_row = owner.tile * C::kOwn;
  const int past_row = min(first_row + C::kOwn, owner.num_rows());
  const TileOwner::Range keys = owner.keys_seen_by(first_row, past_row);
  const int warp_row = first_row + 16 * warp;
  const Bf16* const warp_q = q + 16 * warp * kTilePitch<kDim>;
  const Bf16* const warp_dout = dout + 16 * warp * kTilePitch<kDim>;

  const auto copy_keys = [&](int first, int slot) {
    copy_keys_async<C::kBy, kDim, C::kThreads>(k + slot * kKeyTile, args.k, owner, first, args.head_dim);
    copy_keys_async<C::kBy, kDim, C::kThreads>(v + slot * kKeyTile, args.v, owner, first, args.head_dim);
    end_copy_group();
  };
  int first = keys.begin / C::kBy * C::kBy;
  copy_rows_async<C::kOwn, kDim, C::kThreads>(q, args.q, owner, first_row, args.head_dim);
  copy_rows_async<C::kOwn, kDim, C::kThreads>(dout, args.dout, owner, first_row, args.head_dim);
  copy_keys(first, 0);

  int query[2];
  float log2_sum[2];
  float delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp_row + g + 8 * half;
    const bool is_row = row < past_row;
    const std::int64_t at = is_row ? owner.statistic_at(row, args.num_tokens) : 0;
    query[half] = row / args.group;
    log2_sum[half] = is_row ? args.log_sum_exp[at] * kLog2E : INFINITY;
    delta[half] = is_row ? args.delta[at] : 0;
  }

  float sums[kDim / 8][4] = {};
  for (int slot = 0; first < keys.end; first += C::kBy, slot ^= 1) {
    if (first + C::kBy < keys.end) {
      copy_keys(first + C::kBy, slot ^ 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    if (warp_row < past_row) {
      float scores[kBlocks][4];
      float slopes[kBlocks][4];  // dP, then dS
      multiply_rows<kDim>(scores, warp_q, k + slot * kKeyTile);
      multiply_rows<kDim>(slopes, warp_dout, v + slot * kKeyTile);
      const bool is_masked = !owner.all_see_all(warp_row, min(warp_row + 16, past_row), first, first + C::kBy);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
        for (int at = 0; at < 4; ++at) {
          const float score = log2_score(scores[block][at]);
          const float weight = exp2f(score - log2_sum[at / 2]);
          float slope = weight * (slopes[block][at] - delta[at / 2]);
          if (log2_score.cap != 0) slope *= log2_score.slope(score);
          if (is_masked) {
            const int key = first + 8 * block + 2 * t + at % 2;
            const bool is_seen = key >= owner.first_key(query[at / 2]) && key <= owner.last_key(query[at / 2]);
            if (!is_seen) slope = 0;
          }
          slopes[block][at] = slope;
        }
      }
      add_weighted<kDim>(sums, slopes, k + slot * kKeyTile);
    }
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp_row + g + 8 * half;
    if (row >= past_row) continue;
    write_head<kDim>(args.dq, owner.row_at(args.dq, row, args.head_dim), args.head_dim, sums, half, args.scale);
  }
}

template <typename C, bool kDk, bool kDv>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocksOfKeys)
    dkv_kernel(const AttentionArgs args, const TileTable table) {
  constexpr int kDim = C::kDim;
  constexpr int kBlocks = C::kBy / 8;
  constexpr int kRowTile = kTileElements<C::kBy, kDim>;
  extern __shared__ uint4 shared[];
  Bf16* const k = reinterpret_cast<Bf16*>(shared);
  Bf16* const v = k + kTileElements<C::kOwn, kDim>;
  Bf16* const q = v + kTileElements<C::kOwn, kDim>;  // two tiles, used in turn
  Bf16* const dout = q + 2 * kRowTile;
  float* const log_sum = reinterpret_cast<float*>(dout + 2 * kRowTile);
  float* const delta = log_sum + 2 * C::kBy;

  const TileOwner owner = find_tile<false>(args, table);
  const Log2Scores log2_score(args);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int first_key = owner.tile * C::kOwn;
  const int past_key = min(first_key + C::kOwn, owner.segment.k_count);
  const TileOwner::Range rows = owner.rows_that_see(first_key, past_key);
  const int warp_key = first_key + 16 * warp;
  const Bf16* const warp_k = k + 16 * warp * kTilePitch<kDim>;
  const Bf16* const warp_v = v + 16 * warp * kTilePitch<kDim>;

  const auto copy_rows = [&](int first, int slot) {
    copy_rows_async<C::kBy, kDim, C::kThreads>(q + slot * kRowTile, args.q, owner, first, args.head_dim);
    copy_rows_async<C::kBy, kDim, C::kThreads>(dout + slot * kRowTile, args.dout, owner, first, args.head_dim);
    if (threadIdx.x < C::kBy) {
      // Rows that are none have zeros everywhere: whatever their weights, they add nothing.
      const int row = first + static_cast<int>(threadIdx.x);
      const bool is_row = row < owner.num_rows();
      const std::int64_t at = is_row ? owner.statistic_at(row, args.num_tokens) : 0;
      copy_4_async(log_sum + slot * C::kBy + threadIdx.x, args.log_sum_exp + at, is_row);
      copy_4_async(delta + slot * C::kBy + threadIdx.x, args.delta + at, is_row);
    }
    end_copy_group();
  };

  float dk[kDk ? kDim / 8 : 1][4] = {};
  float dv[kDv ? kDim / 8 : 1][4] = {};
  int first = rows.begin / C::kBy * C::kBy;
  copy_keys_async<C::kOwn, kDim, C::kThreads>(k, args.k, owner, first_key, args.head_dim);
  if constexpr (kDk) copy_keys_async<C::kOwn, kDim, C::kThreads>(v, args.v, owner, first_key, args.head_dim);
  if (first < rows.end) copy_rows(first, 0);
  for (int slot = 0; first < rows.end; first += C::kBy, slot ^= 1) {
    if (first + C::kBy < rows.end) {
      copy_rows(first + C::kBy, slot ^ 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    if (warp_key < past_key) {
      float weights[kBlocks][4];  // S^T, then P^T
      float slopes[kBlocks][4];   // dP^T, then dS^T
      multiply_rows<kDim>(weights, warp_k, q + slot * kRowTile);
      if constexpr (kDk) multiply_rows<kDim>(slopes, warp_v, dout + slot * kRowTile);
      const bool is_masked =
          !owner.all_see_all(first, min(first + C::kBy, owner.num_rows()), warp_key, min(warp_key + 16, past_key));
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const int col = 8 * block + 2 * t;
        const float2 log_sums = *reinterpret_cast<const float2*>(log_sum + slot * C::kBy + col);
        const float2 deltas = *reinterpret_cast<const float2*>(delta + slot * C::kBy + col);
#pragma unroll
        for (int at = 0; at < 4; ++at) {
          const float score = log2_score(weights[block][at]);
          float weight = exp2f(score - (at % 2 == 0 ? log_sums.x : log_sums.y) * kLog2E);
          if (is_masked) {
            const int query = (first + col + at % 2) / args.group;
            const int key = warp_key + g + at / 2 * 8;
            if (key < owner.first_key(query) || key > owner.last_key(query)) weight = 0;
          }
          weights[block][at] = weight;
          if constexpr (kDk) {
            float slope = weight == 0 ? 0 : weight * (slopes[block][at] - (at % 2 == 0 ? deltas.x : deltas.y));
            if (log2_score.cap != 0) slope *= log2_score.slope(score);
            slopes[block][at] = slope;
          }
        }
      }
      if constexpr (kDv) add_weighted<kDim>(dv, weights, dout + slot * kRowTile);
      if constexpr (kDk) add_weighted<kDim>(dk, slopes, q + slot * kRowTile);
    }
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int key = warp_key + g + 8 * half;
    if (key >= past_key) continue;
    if constexpr (kDk) {
      write_head<kDim>(args.dk, owner.key_at(args.dk, key, args.head_dim), args.head_dim, dk, half, args.scale);
    }
    if constexpr (kDv) {
      write_head<kDim>(args.dv, owner.key_at(args.dv, key, args.head_dim), args.head_dim, dv, half, 1);
    }
  }
}

template <typename C>
void put_backward(CudaStream& stream, const AttentionBackward& args, const AttentionArgs& on_card) {
  for_each_table(args.segments, TileOf::kRows, on_card.group, C::kOwn, [&](const TileTable& table) {
    launch_cut<dq_kernel<C>, C, C::kSharedBytes>(stream, num_blocks(on_card, table), on_card, table);
  });
  for_each_table(args.segments, TileOf::kKeys, on_card.group, C::kOwn, [&](const TileTable& table) {
    const unsigned blocks = num_blocks(on_card, table);
    if constexpr (C::kDim > 128) {
      launch_cut<dkv_kernel<C, true, false>, C, C::kSharedBytesOfKeys>(stream, blocks, on_card, table);
      launch_cut<dkv_kernel<C, false, true>, C, C::kSharedBytesOfKeys>(stream, blocks, on_card, table);
    } else {
      launch_cut<dkv_kernel<C, true, true>, C, C::kSharedBytesOfKeys>(stream, blocks, on_card, table);
    }
  });
}

}  // namespace

void attention_backward_on_tensor_cores(CudaStream& stream, const AttentionBackward& args) {
  AttentionArgs on_card = attention_args(args);
  const Scratch scratch = stream.scratch(args.log_sum_exp.bytes().size(), "the backward of attention");
  on_card.delta = scratch.as<float>();
  attention_delta(stream, args, on_card);
  with_tile_dim(args.shape.head_dim, [&](auto dim) {
    constexpr int kDim = dim.value;
    with_tile_size<Cut<kDim>::kSharedBytesOfKeys>(stream.device().shared_bytes_per_block(), [&](auto size) {
      put_backward<Cut<kDim, size.value>>(stream, args, on_card);
    });
  });
}

}  // namespace sluice::cuda
