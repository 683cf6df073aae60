// SPDX-License-Identifier: Apache-2.0
// The backward sums without atomics, in the order of the tokens: a block owns a few rows of the table and some columns.
// It looks for its rows in all ids, stretch by stretch, and adds what it found row by row, each thread to the columns
// that are its own.
#include "ops/cuda/element.cuh"
#include "ops/cuda/embedding.h"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/reduction.cuh"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
struct Forward {
  const std::int32_t* ids;
  const T* table;
  T* out;
  std::int64_t num_rows;  // here
  std::int64_t total_rows;
  std::int64_t first_row;
  std::int64_t dim;
  float scale;
  Into into;
  FaultSlot faults;
};

template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads) forward_kernel(Forward<T> args) {
  using P = Pack<T, kVec>;
  const std::int64_t token = blockIdx.x;
  const std::int64_t id = args.ids[token];
  if (id < 0 || id >= args.total_rows) {
    if (threadIdx.x == 0) args.faults.write(FaultKind::kTokenId, static_cast<std::int32_t>(token), id, args.total_rows);
    return;
  }
  const std::int64_t row = id - args.first_row;
  if (row < 0 || row >= args.num_rows) return;
  const T* const from = args.table + row * args.dim;
  T* const to = args.out + token * args.dim;
  for (std::int64_t at = static_cast<std::int64_t>(threadIdx.x) * kVec; at < args.dim; at += kThreads * kVec) {
    const P pack = *reinterpret_cast<const P*>(from + at);
    P out;
    if (args.into == Into::kAdd) out = *reinterpret_cast<const P*>(to + at);
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      float value = __fmul_rn(to_float(pack.at[j]), args.scale);
      if (args.into == Into::kAdd) value = __fadd_rn(value, to_float(out.at[j]));
      out.at[j] = from_float<T>(value);
    }
    *reinterpret_cast<P*>(to + at) = out;
  }
}

template <typename T>
struct Backward {
  const std::int32_t* ids;
  const T* dout;
  float* dtable;
  std::int64_t num_tokens;
  std::int64_t num_rows;
  std::int64_t total_rows;
  std::int64_t first_row;
  std::int64_t skipped_id;
  std::int64_t dim;
  float scale;
  FaultSlot faults;
};

constexpr int kRowsEach = 8;    // of the table, for a block
constexpr int kStretch = 4096;  // ids that are looked at before what was found is added
constexpr int kIdsEach = kStretch / kThreads;

template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads) backward_kernel(Backward<T> args) {
  // Tokens of the stretch whose rows are the block's, in order, with the row in the lowest bits.
  __shared__ std::int32_t found[kStretch];
  __shared__ int warp_counts[kThreads / kWarp];
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * kRowsEach;  // of those here
  const std::int64_t first_id = args.first_row + first_row;
  const std::int64_t num_rows = min(static_cast<std::int64_t>(kRowsEach), args.num_rows - first_row);
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) * kVec;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;

  for (std::int64_t stretch = 0; stretch < args.num_tokens; stretch += kStretch) {
    // A thread looks at neighbours, so that the order of threads is that of tokens.
    std::int32_t mine[kIdsEach];
    int count = 0;
    for (int i = 0; i < kIdsEach; ++i) {
      const int offset = static_cast<int>(threadIdx.x) * kIdsEach + i;
      const std::int64_t token = stretch + offset;
      if (token >= args.num_tokens) break;
      const std::int64_t id = args.ids[token];
      if (id < 0 || id >= args.total_rows) {
        if (blockIdx.x == 0 && blockIdx.y == 0) {
          args.faults.write(FaultKind::kTokenId, static_cast<std::int32_t>(token), id, args.total_rows);
        }
        continue;
      }
      const std::int64_t row = id - first_id;
      if (row >= 0 && row < num_rows && id != args.skipped_id)
        mine[count++] = static_cast<std::int32_t>(offset * kRowsEach + row);
    }
    int before = count;  // of this warp's threads, this one's included
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const int other = __shfl_up_sync(kAllLanes, before, distance);
      if (lane >= distance) before += other;
    }
    if (lane == kWarp - 1) warp_counts[warp] = before;
    __syncthreads();
    int total = 0;
    int at = before - count;
    for (int other = 0; other < kThreads / kWarp; ++other) {
      if (other < warp) at += warp_counts[other];
      total += warp_counts[other];
    }
    for (int i = 0; i < count; ++i) found[at + i] = mine[i];
    __syncthreads();

    if (col < args.dim) {
      for (int row = 0; row < num_rows && total > 0; ++row) {
        float* const to = args.dtable + (first_row + row) * args.dim + col;
        float sum[kVec];
        bool any = false;
        for (int i = 0; i < total; ++i) {
          if (found[i] % kRowsEach != row) continue;
          if (!any) {
            for (int j = 0; j < kVec; ++j) sum[j] = to[j];
            any = true;
          }
          const std::int64_t token = stretch + found[i] / kRowsEach;
          const auto pack = *reinterpret_cast<const Pack<T, kVec>*>(args.dout + token * args.dim + col);
#pragma unroll
          for (int j = 0; j < kVec; ++j) sum[j] = __fadd_rn(__fmul_rn(to_float(pack.at[j]), args.scale), sum[j]);
        }
        if (any) {
          for (int j = 0; j < kVec; ++j) to[j] = sum[j];
        }
      }
    }
    __syncthreads();
  }
}

std::int64_t total_rows(const RowRange& range, const TensorView& table) {
  return range.total > 0 ? range.total : table.shape()[0];
}

}  // namespace

void embedding_forward(CudaStream& stream, const EmbeddingForward& args) {
  const std::int64_t num_tokens = args.ids.shape()[0];
  if (num_tokens == 0) return;
  with_float_type(args.table.dtype(), [&](auto element) {
    using T = decltype(element);
    constexpr int kVec = kFullVec<T>;
    const Forward<T> on_card{.ids = data<std::int32_t>(args.ids),
                             .table = data<T>(args.table),
                             .out = data<T>(args.out),
                             .num_rows = args.table.shape()[0],
                             .total_rows = total_rows(args.range, args.table),
                             .first_row = args.range.first,
                             .dim = args.table.shape()[1],
                             .scale = args.scale,
                             .into = args.into,
                             .faults = stream.fault_slot()};
    const bool vectors =
        is_aligned_for_vectors(on_card.table) && is_aligned_for_vectors(on_card.out) && on_card.dim % kVec == 0;
    const auto num_blocks = static_cast<unsigned>(num_tokens);
    if (vectors) {
      launch<forward_kernel<T, kVec>, kThreads>(stream, num_blocks, on_card);
    } else {
      launch<forward_kernel<T, 1>, kThreads>(stream, num_blocks, on_card);
    }
  });
}

void embedding_backward(CudaStream& stream, const EmbeddingBackward& args) {
  const std::int64_t num_tokens = args.ids.shape()[0];
  const std::int64_t num_rows = args.dtable.shape()[0];
  const std::int64_t dim = args.dtable.shape()[1];
  if (num_tokens == 0 || num_rows == 0 || dim == 0) return;
  with_float_type(args.dout.dtype(), [&](auto element) {
    using T = decltype(element);
    constexpr int kVec = kFullVec<T>;
    const Backward<T> on_card{.ids = data<std::int32_t>(args.ids),
                              .dout = data<T>(args.dout),
                              .dtable = data<float>(args.dtable),
                              .num_tokens = num_tokens,
                              .num_rows = num_rows,
                              .total_rows = total_rows(args.range, args.dtable),
                              .first_row = args.range.first,
                              .skipped_id = args.skipped_id,
                              .dim = dim,
                              .scale = args.scale,
                              .faults = stream.fault_slot()};
    const bool vectors = is_aligned_for_vectors(on_card.dout) && dim % kVec == 0;
    const auto grid_of = [&](int vec) {
      return dim3(static_cast<unsigned>(div_up(num_rows, kRowsEach)),
                  static_cast<unsigned>(div_up(dim, static_cast<std::int64_t>(kThreads) * vec)));
    };
    if (vectors) {
      launch<backward_kernel<T, kVec>, kThreads>(stream, grid_of(kVec), on_card);
    } else {
      launch<backward_kernel<T, 1>, kThreads>(stream, grid_of(1), on_card);
    }
  });
}

}  // namespace sluice::cuda
