// SPDX-License-Identifier: Apache-2.0
// Attention in float, whatever tensors are stored as. Tiles lie in shared memory as floats; 16 x 16 threads share a
// tile of scores, each with the rows ty, ty + 16, … and the keys tx, tx + 16, …. Softmax runs along with the keys; the
// backward recomputes weights from the log-sum-exp: dS = P (dP - delta), dQ = dS K, dK = dS^T Q, dV = P^T dO.
#include "ops/cuda/attention_kernels.h"
#include "ops/cuda/attention_tiles.cuh"
#include "ops/cuda/launch.cuh"

namespace sluice::cuda {
namespace {

constexpr int kSide = 16;
constexpr int kThreads = kSide * kSide;

// Rows of kDim floats; 4 more between them put 8 neighbours' 16-byte accesses into different banks.
template <int kDim>
constexpr int kPitch = kDim + 4;

// `first` (by the index of a row of the tile) is where that row begins, or negative: zeros.
template <int kRows, int kDim, typename First>
__device__ void read_tile(float* tile, const HeadMatrix& in, int head_dim, const First& first) {
  for (int idx = static_cast<int>(threadIdx.x); idx < kRows * kDim; idx += kThreads) {
    const int row = idx / kDim;
    const int col = idx % kDim;
    const std::int64_t at = first(row);
    tile[row * kPitch<kDim> + col] = at >= 0 && col < head_dim ? in.get(at + col) : 0;
  }
}

template <int kRows, int kDim>
__device__ void read_rows(float* tile, const HeadMatrix& in, const TileOwner& owner, int first, int head_dim) {
  read_tile<kRows, kDim>(tile, in, head_dim, [&](int row) {
    return first + row < owner.num_rows() ? owner.row_at(in, first + row, head_dim) : std::int64_t{-1};
  });
}

template <int kRows, int kDim>
__device__ void read_keys(float* tile, const HeadMatrix& in, const TileOwner& owner, int first, int head_dim) {
  read_tile<kRows, kDim>(tile, in, head_dim, [&](int row) {
    return first + row < owner.segment.k_count ? owner.key_at(in, first + row, head_dim) : std::int64_t{-1};
  });
}

// products[i][j] = a[ty + 16 i] . b[tx + 16 j]
template <int kEach, int kDim>
__device__ void multiply_rows(const float* a, const float* b, int tx, int ty, float (&products)[kEach][kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) products[i][j] = 0;
  }
#pragma unroll 4
  for (int col = 0; col < kDim; col += 4) {
    float4 left[kEach];
    float4 right[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      left[i] = *reinterpret_cast<const float4*>(a + (ty + kSide * i) * kPitch<kDim> + col);
      right[i] = *reinterpret_cast<const float4*>(b + (tx + kSide * i) * kPitch<kDim> + col);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        products[i][j] += left[i].x * right[j].x;
        products[i][j] += left[i].y * right[j].y;
        products[i][j] += left[i].z * right[j].z;
        products[i][j] += left[i].w * right[j].w;
      }
    }
  }
}

// sums[i][c] += sum over k of weight(row ty + 16 i, k) * b[k][c'], where c = 4 n + m is the column 64 n + 4 tx + m.
template <int kEach, int kCount, int kDim, typename Weight>
__device__ void add_weighted(const Weight& weight, const float* b, int tx, int ty, float (&sums)[kEach][kDim / kSide]) {
#pragma unroll 2
  for (int k = 0; k < kCount; ++k) {
    float weights[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) weights[i] = weight(ty + kSide * i, k);
#pragma unroll
    for (int n = 0; n < kDim / 64; ++n) {
      const float4 values = *reinterpret_cast<const float4*>(b + k * kPitch<kDim> + 64 * n + 4 * tx);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        sums[i][4 * n] += weights[i] * values.x;
        sums[i][4 * n + 1] += weights[i] * values.y;
        sums[i][4 * n + 2] += weights[i] * values.z;
        sums[i][4 * n + 3] += weights[i] * values.w;
      }
    }
  }
}

template <int kCols>
__device__ void write_head(const HeadMatrix& to, std::int64_t at, int head_dim, int tx, const float (&values)[kCols],
                           float factor) {
#pragma unroll
  for (int c = 0; c < kCols; ++c) {
    const int col = c / 4 * 64 + 4 * tx + c % 4;
    if (col < head_dim) to.set(at + col, values[c] * factor);
  }
}

// Of the 16 threads that share a row.
template <typename Combine>
__device__ float over_row(float value, const Combine& combine) {
#pragma unroll
  for (int distance = kSide / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

// ---- Forward ----

template <int kDim>
constexpr int kForwardTile = kDim > 128 ? 32 : 64;

template <int kDim>
constexpr int kForwardFloats = 2 * kForwardTile<kDim>* kPitch<kDim> + kForwardTile<kDim>*(kForwardTile<kDim> + 1);

template <int kDim>
__global__ void __launch_bounds__(kThreads) forward_kernel(const AttentionArgs args, const TileTable table) {
  constexpr int kTile = kForwardTile<kDim>;
  constexpr int kEach = kTile / kSide;
  extern __shared__ float4 shared[];
  float* const q = reinterpret_cast<float*>(shared);
  float* const kv = q + kTile * kPitch<kDim>;
  float* const weights = kv + kTile * kPitch<kDim>;  // (rows, keys + 1)
  const int tx = static_cast<int>(threadIdx.x) % kSide;
  const int ty = static_cast<int>(threadIdx.x) / kSide;

  const TileOwner owner = find_tile<true>(args, table);
  const ScoreMap map{args.scale, args.cap};
  const int first_row = owner.tile * kTile;
  const int past_row = min(first_row + kTile, owner.num_rows());
  const TileOwner::Range keys = owner.keys_seen_by(first_row, past_row);
  read_rows<kTile, kDim>(q, args.q, owner, first_row, args.head_dim);

  float sums[kEach][kDim / kSide] = {};
  float largest[kEach];
  float total[kEach] = {};
#pragma unroll
  for (int i = 0; i < kEach; ++i) largest[i] = -INFINITY;

  for (int first = keys.begin / kTile * kTile; first < keys.end; first += kTile) {
    read_keys<kTile, kDim>(kv, args.k, owner, first, args.head_dim);
    __syncthreads();
    float scores[kEach][kEach];
    multiply_rows<kEach, kDim>(q, kv, tx, ty, scores);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int query = (first_row + ty + kSide * i) / args.group;
      const int first_key = owner.first_key(query);
      const int last_key = owner.last_key(query);
      float row_max = -INFINITY;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int key = first + tx + kSide * j;
        scores[i][j] =
            key >= first_key && key <= last_key && key < owner.segment.k_count ? map.score(scores[i][j]) : -INFINITY;
        row_max = fmaxf(row_max, scores[i][j]);
      }
      row_max = fmaxf(largest[i], over_row(row_max, [](float a, float b) { return fmaxf(a, b); }));
      const float base = row_max == -INFINITY ? 0 : row_max;  // nothing seen yet
      const float factor = expf(largest[i] - base);
      largest[i] = row_max;
      total[i] *= factor;
#pragma unroll
      for (int c = 0; c < kDim / kSide; ++c) sums[i][c] *= factor;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const float weight = expf(scores[i][j] - base);
        total[i] += weight;
        weights[(ty + kSide * i) * (kTile + 1) + tx + kSide * j] = weight;
      }
    }
    __syncthreads();
    read_keys<kTile, kDim>(kv, args.v, owner, first, args.head_dim);
    __syncthreads();
    add_weighted<kEach, kTile, kDim>([&](int row, int key) { return weights[row * (kTile + 1) + key]; }, kv, tx, ty,
                                     sums);
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float sum = over_row(total[i], [](float a, float b) { return a + b; });
    const int row = first_row + ty + kSide * i;
    if (row >= past_row) continue;
    write_head(args.out, owner.row_at(args.out, row, args.head_dim), args.head_dim, tx, sums[i], 1 / sum);
    if (args.log_sum_exp != nullptr && tx == 0) {
      args.log_sum_exp[owner.statistic_at(row, args.num_tokens)] = largest[i] + logf(sum);
    }
  }
}

// ---- Backward ----

template <int kDim>
constexpr int kBackwardTile = kDim > 128 ? 16 : 32;

template <int kDim>
constexpr int kBackwardFloats = 4 * kBackwardTile<kDim>* kPitch<kDim> +
                                2 * kBackwardTile<kDim>*(kBackwardTile<kDim> + 1);

struct WeightAndSlope {
  float weight;  // P
  float slope;   // dS times d score / d product
};

__device__ WeightAndSlope weigh(const ScoreMap& map, float product, float dweight, float log_sum_exp, float delta) {
  const float score = map.score(product);
  const float weight = expf(score - log_sum_exp);
  return {weight, weight * (dweight - delta) * map.slope(score)};
}

// P and dS (rows, keys + 1) of a tile in shared memory; `slopes` alone where weights is null.
template <int kDim>
__device__ void weigh_tile(const AttentionArgs& args, const TileOwner& owner, int first_row, int first_key,
                           const float* q, const float* k, const float* v, const float* dout, float* weights,
                           float* slopes) {
  constexpr int kTile = kBackwardTile<kDim>;
  constexpr int kEach = kTile / kSide;
  const int tx = static_cast<int>(threadIdx.x) % kSide;
  const int ty = static_cast<int>(threadIdx.x) / kSide;
  const ScoreMap map{args.scale, args.cap};
  float products[kEach][kEach];
  float dweights[kEach][kEach];
  multiply_rows<kEach, kDim>(q, k, tx, ty, products);
  multiply_rows<kEach, kDim>(dout, v, tx, ty, dweights);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = first_row + ty + kSide * i;
    const bool is_row = row < owner.num_rows();
    const std::int64_t at = is_row ? owner.statistic_at(row, args.num_tokens) : 0;
    const float log_sum_exp = is_row ? args.log_sum_exp[at] : 0;
    const float delta = is_row ? args.delta[at] : 0;
    const int query = row / args.group;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int key = first_key + tx + kSide * j;
      const bool is_seen = is_row && key >= owner.first_key(query) && key <= owner.last_key(query);
      WeightAndSlope both{0, 0};
      if (is_seen) both = weigh(map, products[i][j], dweights[i][j], log_sum_exp, delta);
      const int to = (ty + kSide * i) * (kTile + 1) + tx + kSide * j;
      if (weights != nullptr) weights[to] = both.weight;
      slopes[to] = both.slope;
    }
  }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads) dq_kernel(const AttentionArgs args, const TileTable table) {
  constexpr int kTile = kBackwardTile<kDim>;
  constexpr int kEach = kTile / kSide;
  extern __shared__ float4 shared[];
  float* const q = reinterpret_cast<float*>(shared);
  float* const dout = q + kTile * kPitch<kDim>;
  float* const k = dout + kTile * kPitch<kDim>;
  float* const v = k + kTile * kPitch<kDim>;
  float* const slopes = v + kTile * kPitch<kDim>;
  const int tx = static_cast<int>(threadIdx.x) % kSide;
  const int ty = static_cast<int>(threadIdx.x) / kSide;

  const TileOwner owner = find_tile<true>(args, table);
  const int first_row = owner.tile * kTile;
  const int past_row = min(first_row + kTile, owner.num_rows());
  const TileOwner::Range keys = owner.keys_seen_by(first_row, past_row);
  read_rows<kTile, kDim>(q, args.q, owner, first_row, args.head_dim);
  read_rows<kTile, kDim>(dout, args.dout, owner, first_row, args.head_dim);

  float sums[kEach][kDim / kSide] = {};
  for (int first = keys.begin / kTile * kTile; first < keys.end; first += kTile) {
    read_keys<kTile, kDim>(k, args.k, owner, first, args.head_dim);
    read_keys<kTile, kDim>(v, args.v, owner, first, args.head_dim);
    __syncthreads();
    weigh_tile<kDim>(args, owner, first_row, first, q, k, v, dout, nullptr, slopes);
    __syncthreads();
    add_weighted<kEach, kTile, kDim>([&](int row, int key) { return slopes[row * (kTile + 1) + key]; }, k, tx, ty,
                                     sums);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = first_row + ty + kSide * i;
    if (row >= past_row) continue;
    write_head(args.dq, owner.row_at(args.dq, row, args.head_dim), args.head_dim, tx, sums[i], 1);
  }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads) dkv_kernel(const AttentionArgs args, const TileTable table) {
  constexpr int kTile = kBackwardTile<kDim>;
  constexpr int kEach = kTile / kSide;
  extern __shared__ float4 shared[];
  float* const q = reinterpret_cast<float*>(shared);
  float* const dout = q + kTile * kPitch<kDim>;
  float* const k = dout + kTile * kPitch<kDim>;
  float* const v = k + kTile * kPitch<kDim>;
  float* const weights = v + kTile * kPitch<kDim>;
  float* const slopes = weights + kTile * (kTile + 1);
  const int tx = static_cast<int>(threadIdx.x) % kSide;
  const int ty = static_cast<int>(threadIdx.x) / kSide;

  const TileOwner owner = find_tile<false>(args, table);
  const int first_key = owner.tile * kTile;
  const int past_key = min(first_key + kTile, owner.segment.k_count);
  const TileOwner::Range rows = owner.rows_that_see(first_key, past_key);
  read_keys<kTile, kDim>(k, args.k, owner, first_key, args.head_dim);
  read_keys<kTile, kDim>(v, args.v, owner, first_key, args.head_dim);

  float dk[kEach][kDim / kSide] = {};
  float dv[kEach][kDim / kSide] = {};
  for (int first = rows.begin / kTile * kTile; first < rows.end; first += kTile) {
    read_rows<kTile, kDim>(q, args.q, owner, first, args.head_dim);
    read_rows<kTile, kDim>(dout, args.dout, owner, first, args.head_dim);
    __syncthreads();
    weigh_tile<kDim>(args, owner, first, first_key, q, k, v, dout, weights, slopes);
    __syncthreads();
    add_weighted<kEach, kTile, kDim>([&](int key, int row) { return weights[row * (kTile + 1) + key]; }, dout, tx, ty,
                                     dv);
    add_weighted<kEach, kTile, kDim>([&](int key, int row) { return slopes[row * (kTile + 1) + key]; }, q, tx, ty, dk);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int key = first_key + ty + kSide * i;
    if (key >= past_key) continue;
    write_head(args.dk, owner.key_at(args.dk, key, args.head_dim), args.head_dim, tx, dk[i], 1);
    write_head(args.dv, owner.key_at(args.dv, key, args.head_dim), args.head_dim, tx, dv[i], 1);
  }
}

// ---- Launches ----

// Calls use(integral_constant<int, kDim>) with the smallest tile width that holds a head.
template <typename Use>
void with_dim(std::int64_t head_dim, const Use& use) {
  if (head_dim <= 64) {
    use(std::integral_constant<int, 64>());
  } else if (head_dim <= 128) {
    use(std::integral_constant<int, 128>());
  } else {
    use(std::integral_constant<int, 256>());
  }
}

template <auto* kKernel, int kFloats>
void launch_floats(CudaStream& stream, const AttentionArgs& args, const TileTable& table) {
  constexpr int kBytes = kFloats * static_cast<int>(sizeof(float));
  launch_sized<kKernel, kThreads, kBytes>(stream, num_blocks(args, table), kBytes, args, table);
}

}  // namespace

void attention_forward_in_float(CudaStream& stream, const AttentionForward& args) {
  const AttentionArgs on_card = attention_args(args);
  with_dim(args.shape.head_dim, [&](auto dim) {
    constexpr int kDim = dim.value;
    for_each_table(args.segments, TileOf::kRows, on_card.group, kForwardTile<kDim>, [&](const TileTable& table) {
      launch_floats<forward_kernel<kDim>, kForwardFloats<kDim>>(stream, on_card, table);
    });
  });
}

void attention_backward_in_float(CudaStream& stream, const AttentionBackward& args) {
  AttentionArgs on_card = attention_args(args);
  const Scratch scratch = stream.scratch(args.log_sum_exp.bytes().size(), "the backward of attention");
  on_card.delta = scratch.as<float>();
  attention_delta(stream, args, on_card);
  with_dim(args.shape.head_dim, [&](auto dim) {
    constexpr int kDim = dim.value;
    constexpr int kTile = kBackwardTile<kDim>;
    for_each_table(args.segments, TileOf::kRows, on_card.group, kTile, [&](const TileTable& table) {
      launch_floats<dq_kernel<kDim>, kBackwardFloats<kDim>>(stream, on_card, table);
    });
    for_each_table(args.segments, TileOf::kKeys, on_card.group, kTile, [&](const TileTable& table) {
      launch_floats<dkv_kernel<kDim>, kBackwardFloats<kDim>>(stream, on_card, table);
    });
  });
}

}  // namespace sluice::cuda
