// SPDX-License-Identifier: Apache-2.0
// The forward on tensor cores. A block owns a tile of rows, a warp 16 of them; tiles of keys and values come by, the
// next being copied while this one is multiplied. Weights stay in registers: the sums of one product are the operand of
// the next. Where there are few rows and many keys, as in generation, several blocks share a tile of rows, each with a
// part of the keys, and what they found is put together in order.
#include "device/cuda/cuda_device.h"
#include "ops/cuda/attention_kernels.h"
#include "ops/cuda/attention_mma.cuh"

namespace sluice::cuda {
namespace {

// Small tiles have fewer rows but as many keys, so the summation order of a row is the same.
template <int kHeadDim, TileSize kSize = TileSize::kLarge>
struct Cut {
  static constexpr int kDim = kHeadDim;
  static constexpr int kWarps = kDim > 128 ? 4 : kSize == TileSize::kLarge ? 8 : 7;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kMinBlocks = kDim > 128 || kSize == TileSize::kSmall ? 1 : 2;  // resident, per multiprocessor
  static constexpr int kRows = 16 * kWarps;
  static constexpr int kKeys = kDim > 128 ? 32 : 64;
  static constexpr int kSharedBytes = 2 * (kTileElements<kRows, kDim> + 4 * kTileElements<kKeys, kDim>);

  static constexpr CardRange cards() { return cards_for(kSize, Cut<kHeadDim>::kSharedBytes); }
};

// How keys are shared out, and where blocks leave what they found: for every tile, part and row of the tile, sums that
// are not yet divided, and the largest score and the total that belong to them.
struct Parts {
  int count = 1;
  int keys_each = 0;  // a multiple of a tile's keys
  int rows_each = 0;  // that a tile has at most
  std::int64_t num_slots = 0;
  float* sums = nullptr;
  float2* statistics = nullptr;

  __device__ std::int64_t slot(int block, int part, int row) const {
    return (static_cast<std::int64_t>(block) * count + part) * rows_each + row;
  }
};

constexpr int kMinPartKeys = 256;
constexpr std::int64_t kWantedBlocks = 512;  // a few for each multiprocessor of a large card

__device__ float max_over_quad(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, 2));
}
__device__ float sum_over_quad(float value) {
  value += __shfl_xor_sync(0xFFFFFFFFU, value, 1);
  return value + __shfl_xor_sync(0xFFFFFFFFU, value, 2);
}

template <typename C, bool kSplit>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    forward_kernel(const AttentionArgs args, const TileTable table, const Parts parts) {
  constexpr int kDim = C::kDim;
  constexpr int kBlocks = C::kKeys / 8;
  constexpr int kKeyTile = kTileElements<C::kKeys, kDim>;
  extern __shared__ uint4 shared[];
  Bf16* const q = reinterpret_cast<Bf16*>(shared);
  Bf16* const k = q + kTileElements<C::kRows, kDim>;  // two tiles, used in turn
  Bf16* const v = k + 2 * kKeyTile;

  const int block = kSplit ? static_cast<int>(blockIdx.x) / parts.count : static_cast<int>(blockIdx.x);
  const int part = kSplit ? static_cast<int>(blockIdx.x) % parts.count : 0;
  const TileOwner owner = find_tile<true>(args, table, block);
  const Log2Scores log2_score(args);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int first_row = owner.tile * C::kRows;
  const int past_row = min(first_row + C::kRows, owner.num_rows());
  TileOwner::Range keys = owner.keys_seen_by(first_row, past_row);
  keys.begin = keys.begin / C::kKeys * C::kKeys;
  if constexpr (kSplit) {
    keys.begin += part * parts.keys_each;
    keys.end = min(keys.end, keys.begin + parts.keys_each);
  }
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
  int first = keys.begin;
  copy_rows_async<C::kRows, kDim, C::kThreads>(q, args.q, owner, first_row, args.head_dim);
  if (first < keys.end) copy_keys(first, 0);
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
    if constexpr (kSplit) {
      const std::int64_t slot = parts.slot(block, part, row - first_row);
      write_head<kDim>({.first = parts.sums, .width = kDim, .is_bf16 = false}, slot * kDim, kDim, sums, half, 1);
      if (t == 0) parts.statistics[slot] = {largest[half], sum};
      continue;
    }
    write_head<kDim>(args.out, owner.row_at(args.out, row, args.head_dim), args.head_dim, sums, half, 1 / sum);
    if (args.log_sum_exp != nullptr && t == 0) {
      args.log_sum_exp[owner.statistic_at(row, args.num_tokens)] = (largest[half] + log2f(sum)) * kLn2;
    }
  }
}

// A block of kDim threads for each row that a tile may have.
template <typename C>
__global__ void __launch_bounds__(C::kDim)
    merge_kernel(const AttentionArgs args, const TileTable table, const Parts parts) {
  const int block = static_cast<int>(blockIdx.x) / parts.rows_each;
  const int row_of_tile = static_cast<int>(blockIdx.x) % parts.rows_each;
  const TileOwner owner = find_tile<true>(args, table, block);
  const int row = owner.tile * C::kRows + row_of_tile;
  if (row >= owner.num_rows()) return;
  float largest = -INFINITY;
  for (int part = 0; part < parts.count; ++part) {
    largest = fmaxf(largest, parts.statistics[parts.slot(block, part, row_of_tile)].x);
  }
  const int col = static_cast<int>(threadIdx.x);
  float total = 0;
  float sum = 0;
  for (int part = 0; part < parts.count; ++part) {
    const std::int64_t slot = parts.slot(block, part, row_of_tile);
    const float2 found = parts.statistics[slot];
    const float factor = exp2f(found.x - largest);
    total += found.y * factor;
    sum += parts.sums[slot * C::kDim + col] * factor;
  }
  if (col < args.head_dim) args.out.set(owner.row_at(args.out, row, args.head_dim) + col, sum / total);
  if (col == 0 && args.log_sum_exp != nullptr) {
    args.log_sum_exp[owner.statistic_at(row, args.num_tokens)] = (largest + log2f(total)) * kLn2;
  }
}

// By shapes alone, but for scratch memory that is too small: one part is no split.
template <typename C>
Parts share_out(const AttentionForward& args, const AttentionArgs& on_card, std::uint64_t scratch_bytes) {
  Parts parts;
  std::int64_t most_keys = 0;
  std::int64_t num_blocks = 0;
  std::int64_t most_rows = 0;
  for (const AttentionSegment& segment : args.segments) {
    const std::int64_t rows = segment.q_count * on_card.group;
    const std::int64_t seen = on_card.window == 0
                                  ? segment.k_count
                                  : std::min<std::int64_t>(segment.k_count, segment.q_count + on_card.window);
    num_blocks += div_up(rows, C::kRows) * on_card.num_kv_heads;
    most_rows = std::max(most_rows, std::min<std::int64_t>(rows, C::kRows));
    if (rows > 0) most_keys = std::max(most_keys, seen + C::kKeys);  // counted from the beginning of a tile
  }
  if (num_blocks == 0) return parts;
  const std::int64_t wanted = std::min(div_up(most_keys, kMinPartKeys), kWantedBlocks / num_blocks);
  if (wanted < 2) return parts;
  const std::int64_t keys_each = div_up(div_up(most_keys, wanted), C::kKeys) * C::kKeys;
  const std::int64_t count = div_up(most_keys, keys_each);
  const std::int64_t slots = num_blocks * count * most_rows;
  if (static_cast<std::uint64_t>(slots) * (C::kDim + 2) * sizeof(float) > scratch_bytes) return parts;
  parts.count = static_cast<int>(count);
  parts.keys_each = static_cast<int>(keys_each);
  parts.rows_each = static_cast<int>(most_rows);
  parts.num_slots = slots;
  return parts;
}

template <typename C>
void put_forward(CudaStream& stream, const AttentionForward& args, const AttentionArgs& on_card) {
  Parts parts = share_out<C>(args, on_card, stream.device().scratch().size_bytes());
  if (parts.count == 1) {
    for_each_table(args.segments, TileOf::kRows, on_card.group, C::kRows, [&](const TileTable& table) {
      launch_cut<forward_kernel<C, false>, C, C::kSharedBytes>(stream, num_blocks(on_card, table), on_card, table,
                                                               parts);
    });
    return;
  }
  const std::uint64_t slot_bytes = (C::kDim + 2) * sizeof(float);
  const Scratch scratch =
      stream.scratch(static_cast<std::uint64_t>(parts.num_slots) * slot_bytes, "the forward of attention");
  parts.statistics = scratch.as<float2>();
  parts.sums = scratch.as<float>() + 2 * parts.num_slots;
  for_each_table(args.segments, TileOf::kRows, on_card.group, C::kRows, [&](const TileTable& table) {
    const unsigned blocks = num_blocks(on_card, table);
    launch_cut<forward_kernel<C, true>, C, C::kSharedBytes>(stream, blocks * static_cast<unsigned>(parts.count),
                                                            on_card, table, parts);
    launch<merge_kernel<C>, C::kDim>(stream, blocks * static_cast<unsigned>(parts.rows_each), on_card, table, parts);
  });
}

}  // namespace

void attention_forward_on_tensor_cores(CudaStream& stream, const AttentionForward& args) {
  const AttentionArgs on_card = attention_args(args);
  with_tile_dim(args.shape.head_dim, [&](auto dim) {
    constexpr int kDim = dim.value;
    with_tile_size<Cut<kDim>::kSharedBytes>(stream.device().shared_bytes_per_block(), [&](auto size) {
      put_forward<Cut<kDim, size.value>>(stream, args, on_card);
    });
  });
}

}  // namespace sluice::cuda
