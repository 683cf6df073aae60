// SPDX-License-Identifier: Apache-2.0
// How attention is cut into tiles on a card. The heads that share a kv head differ only in their queries, so every
// (query, head) pair of them is a row of one list, row = query * group + head, and a key is read once for all. A block
// of threads owns a tile of rows (forward, dQ) or of keys (dK, dV) of one kv head in one segment: every result has one
// writer. The cut depends on shapes alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"
#include "device/cuda/cuda_stream.h"
#include "ops/attention.h"
#include "ops/cuda/element.cuh"

namespace sluice::cuda {

// Heads in the columns of rows, of either dtype.
struct HeadMatrix {
  void* first = nullptr;  // the first head of the first token
  std::int64_t width = 0;
  bool is_bf16 = false;

  __device__ float get(std::int64_t at) const {
    return is_bf16 ? to_float(static_cast<const Bf16*>(first)[at]) : static_cast<const float*>(first)[at];
  }
  __device__ void set(std::int64_t at, float value) const {
    if (is_bf16) {
      static_cast<Bf16*>(first)[at] = from_float<Bf16>(value);
    } else {
      static_cast<float*>(first)[at] = value;
    }
  }
};

struct SegmentTiles {
  int q_first, q_count, k_first, k_count;
  int first_tile;  // of this segment, among all
};

// As many segments as go into a kernel's arguments; more are more launches.
struct TileTable {
  static constexpr int kMaxSegments = 128;

  int num_segments = 0;
  int num_tiles = 0;  // of one kv head
  SegmentTiles at[kMaxSegments];
};

struct AttentionArgs {
  HeadMatrix q, k, v, out, dout, dq, dk, dv;
  float* log_sum_exp = nullptr;  // (heads, tokens); null: not wanted
  float* delta = nullptr;        // (heads, tokens)
  std::int64_t num_tokens = 0;
  int group = 1;  // query heads that share a kv head
  int num_kv_heads = 1;
  int head_dim = 0;
  int window = 0;
  float scale = 1;
  float cap = 0;
};

// One kv head of one segment, and the tile of it that this block owns. Keys and queries count from the segment's first.
struct TileOwner {
  SegmentTiles segment;
  int kv_head;
  int tile;
  int group;
  int window;

  __device__ int num_rows() const { return segment.q_count * group; }
  __device__ int last_key(int query) const { return segment.k_count - segment.q_count + query; }
  __device__ int first_key(int query) const { return window == 0 ? 0 : max(0, last_key(query) - window + 1); }
  __device__ std::int64_t token(int row) const { return segment.q_first + row / group; }
  __device__ int head(int row) const { return kv_head * group + row % group; }

  // Where a row's head begins in a matrix of queries, and a key's in one of keys.
  __device__ std::int64_t row_at(const HeadMatrix& in, int row, int head_dim) const {
    return token(row) * in.width + static_cast<std::int64_t>(head(row)) * head_dim;
  }
  __device__ std::int64_t key_at(const HeadMatrix& in, int key, int head_dim) const {
    return static_cast<std::int64_t>(segment.k_first + key) * in.width + static_cast<std::int64_t>(kv_head) * head_dim;
  }
  __device__ std::int64_t statistic_at(int row, std::int64_t num_tokens) const {
    return head(row) * num_tokens + token(row);
  }

  // Keys [begin, end) that rows [first, past) see among them.
  struct Range {
    int begin, end;
  };
  __device__ Range keys_seen_by(int first, int past) const {
    return {first_key(first / group), last_key((past - 1) / group) + 1};
  }
  __device__ Range rows_that_see(int first, int past) const {
    const int offset = segment.k_count - segment.q_count;
    const int first_query = max(0, first - offset);
    const int past_query = window == 0 ? segment.q_count
                                       : min(static_cast<std::int64_t>(segment.q_count),
                                             static_cast<std::int64_t>(past) - 1 - offset + window);
    return {first_query * group, max(first_query, past_query) * group};
  }
  // Nothing to mask between the rows and the keys.
  __device__ bool all_see_all(int first_row, int past_row, int first, int past) const {
    return past - 1 <= last_key(first_row / group) && first >= first_key((past_row - 1) / group);
  }
};

// Tiles of rows cost more the later they are, tiles of keys the earlier: `latest_first` starts with the costly.
template <bool kLatestFirst>
__device__ inline TileOwner find_tile(const AttentionArgs& args, const TileTable& table, int block) {
  const int in_order = block / args.num_kv_heads;
  const int tile = kLatestFirst ? table.num_tiles - 1 - in_order : in_order;
  int low = 0;
  int high = table.num_segments - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.at[middle].first_tile <= tile) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const SegmentTiles segment = table.at[low];
  return {.segment = segment,
          .kv_head = block % args.num_kv_heads,
          .tile = tile - segment.first_tile,
          .group = args.group,
          .window = args.window};
}

template <bool kLatestFirst>
__device__ inline TileOwner find_tile(const AttentionArgs& args, const TileTable& table) {
  return find_tile<kLatestFirst>(args, table, static_cast<int>(blockIdx.x));
}

// Scores of a product q.k as the softmax sees them.
struct ScoreMap {
  float scale;
  float cap;

  __device__ float score(float product) const {
    return cap == 0 ? product * scale : cap * tanhf(product * (scale / cap));
  }
  // d score / d product, given the score.
  __device__ float slope(float score) const {
    if (cap == 0) return scale;
    const float tanh = score / cap;
    return scale * (1 - tanh * tanh);
  }
};

// ---- On the host ----

enum class TileOf { kRows, kKeys };

// Calls launch(table) for as many tables as the segments need.
template <typename Launch>
void for_each_table(const std::vector<AttentionSegment>& segments, TileOf of, int group, int tile_size,
                    const Launch& launch) {
  TileTable table;
  std::int64_t num_tiles = 0;
  const auto flush = [&] {
    table.num_tiles = static_cast<int>(num_tiles);
    if (num_tiles > 0) launch(table);
    table.num_segments = 0;
    num_tiles = 0;
  };
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  for (const AttentionSegment& segment : segments) {
    CHECK(segment.q_first + segment.q_count <= kMax && segment.k_first + segment.k_count <= kMax &&
              segment.q_count * group <= kMax,
          "a card's attention counts tokens in 32 bits");
    const std::int64_t size = of == TileOf::kRows ? segment.q_count * group : segment.k_count;
    if (size == 0) continue;
    if (table.num_segments == TileTable::kMaxSegments) flush();
    table.at[table.num_segments++] = {.q_first = static_cast<int>(segment.q_first),
                                      .q_count = static_cast<int>(segment.q_count),
                                      .k_first = static_cast<int>(segment.k_first),
                                      .k_count = static_cast<int>(segment.k_count),
                                      .first_tile = static_cast<int>(num_tiles)};
    num_tiles += div_up(size, tile_size);
  }
  flush();
}

inline unsigned num_blocks(const AttentionArgs& args, const TileTable& table) {
  return static_cast<unsigned>(table.num_tiles) * static_cast<unsigned>(args.num_kv_heads);
}

}  // namespace sluice::cuda
