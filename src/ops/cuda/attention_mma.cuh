// SPDX-License-Identifier: Apache-2.0
// Shared parts of the tensor-core attention kernels: loading tiles of heads into shared memory, tile sizes per card,
// and scores as base-2 exponents.
#pragma once

#include <type_traits>

#include "ops/cuda/attention_tiles.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/mma.cuh"

namespace sluice::cuda {

constexpr float kLog2E = 1.4426950408889634F;
constexpr float kLn2 = 0.6931471805599453F;

// Scores of a product q.k times log2(e), so that the softmax takes powers of two.
struct Log2Scores {
  float scale;       // of a product; of tanh's argument where there is a cap
  float cap;         // times log2(e); 0: none
  float tanh_scale;  // 1 / cap

  __device__ explicit Log2Scores(const AttentionArgs& args)
      : scale(args.cap == 0 ? args.scale * kLog2E : args.scale / args.cap),
        cap(args.cap * kLog2E),
        tanh_scale(args.cap == 0 ? 0 : 1 / cap) {}

  __device__ float operator()(float product) const {
    if (cap == 0) return product * scale;
    // tanh x = 1 - 2 / (1 + e^2x)
    return cap * (1 - __fdividef(2, 1 + exp2f(product * (2 * kLog2E * scale))));
  }
  // d score / d product over the scale of the shape, given the score.
  __device__ float slope(float score) const {
    const float tanh = score * tanh_scale;
    return 1 - tanh * tanh;
  }
};

// Starts the copy of a tile: first(row of the tile) is where that row begins, or negative for zeros.
template <int kRows, int kDim, int kThreads, typename First>
__device__ inline void copy_tile_async(Bf16* tile, const HeadMatrix& in, int head_dim, const First& first) {
  constexpr int kChunks = kDim / 8;
  const auto* const base = static_cast<const Bf16*>(in.first);
  for (int idx = static_cast<int>(threadIdx.x); idx < kRows * kChunks; idx += kThreads) {
    const int row = idx / kChunks;
    const int col = idx % kChunks * 8;
    const std::int64_t at = first(row);
    const bool is_there = at >= 0 && col < head_dim;
    copy_16_async(tile + row * kTilePitch<kDim> + col, is_there ? base + at + col : base, is_there);
  }
}

template <int kRows, int kDim, int kThreads>
__device__ inline void copy_rows_async(Bf16* tile, const HeadMatrix& in, const TileOwner& owner, int first,
                                       int head_dim) {
  copy_tile_async<kRows, kDim, kThreads>(tile, in, head_dim, [&](int row) {
    return first + row < owner.num_rows() ? owner.row_at(in, first + row, head_dim) : std::int64_t{-1};
  });
}

template <int kRows, int kDim, int kThreads>
__device__ inline void copy_keys_async(Bf16* tile, const HeadMatrix& in, const TileOwner& owner, int first,
                                       int head_dim) {
  copy_tile_async<kRows, kDim, kThreads>(tile, in, head_dim, [&](int row) {
    return first + row < owner.segment.k_count ? owner.key_at(in, first + row, head_dim) : std::int64_t{-1};
  });
}

// A row of a product's sums to a head of the matrix: half 0 is row g, half 1 is row g + 8 of the warp's 16.
template <int kDim>
__device__ inline void write_head(const HeadMatrix& to, std::int64_t at, int head_dim, const float (&sums)[kDim / 8][4],
                                  int half, float factor) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int block = 0; block < kDim / 8; ++block) {
    const int col = block * 8 + 2 * t;
    if (col >= head_dim) continue;
    const float low = sums[block][2 * half] * factor;
    const float high = sums[block][2 * half + 1] * factor;
    to.set(at + col, low);
    to.set(at + col + 1, high);
  }
}

// Calls use(integral_constant<int, kDim>) with the smallest tile width that holds a head.
template <typename Use>
void with_tile_dim(std::int64_t head_dim, const Use& use) {
  if (head_dim <= 64) {
    use(std::integral_constant<int, 64>());
  } else if (head_dim <= 96) {
    use(std::integral_constant<int, 96>());
  } else if (head_dim <= 128) {
    use(std::integral_constant<int, 128>());
  } else {
    use(std::integral_constant<int, 256>());
  }
}

// Large tiles are faster; small ones are for cards with less shared memory per block. The card alone decides, so a step
// always uses one size.
enum class TileSize : int { kLarge, kSmall };

// The cards that use tiles of `size`; `large_bytes` is the shared memory of a block with large tiles.
constexpr CardRange cards_for(TileSize size, int large_bytes) {
  if (large_bytes <= kLeastSharedBytes) return {};
  return size == TileSize::kLarge ? CardRange{.least_bytes = large_bytes} : CardRange{.below_bytes = large_bytes};
}

// Calls use(integral_constant<TileSize, size>) with the tile size for a card with `shared_bytes` per block. If large
// tiles fit every card, small ones are not instantiated.
template <int kLargeBytes, typename Use>
void with_tile_size(int shared_bytes, const Use& use) {
  if constexpr (kLargeBytes <= kLeastSharedBytes) {
    use(std::integral_constant<TileSize, TileSize::kLarge>());
  } else if (cards_for(TileSize::kLarge, kLargeBytes).holds(shared_bytes)) {
    use(std::integral_constant<TileSize, TileSize::kLarge>());
  } else {
    use(std::integral_constant<TileSize, TileSize::kSmall>());
  }
}

}  // namespace sluice::cuda
