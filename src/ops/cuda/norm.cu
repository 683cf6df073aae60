// SPDX-License-Identifier: Apache-2.0
// A group of threads takes a run: a warp where runs are short (heads), a block where they are long (hidden states). A
// thread owns the same columns in every pass and in every run, so it may read what it is about to write over, and its
// part of the weights' gradients is its alone until the block's runs are done.
#include <algorithm>

#include "device/cuda/cuda_error.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/norm.h"
#include "ops/cuda/partial_sums.h"
#include "ops/cuda/reduction.cuh"

namespace sluice::cuda {
namespace {

constexpr int kBlock = 256;
constexpr std::int64_t kMaxWarpDim = 512;   // longer rows take a block each
constexpr int kMaxSharedBytes = 96 * 1024;  // available on every card

// Where runs lie.
struct Runs {
  std::int64_t num_runs;  // of all rows
  std::int64_t runs_each;
  std::int64_t width;
  std::int64_t first_col;
  int dim;

  __device__ std::int64_t first_of(std::int64_t run) const {
    return run / runs_each * width + first_col + run % runs_each * dim;
  }
};

struct Statistics {
  float mean;
  float inverse;
};

template <int kGroup, int kVec, typename T>
__device__ Statistics statistics(NormKind kind, float eps, const T* x, int dim) {
  const int first = static_cast<int>(threadIdx.x) % kGroup * kVec;
  float mean = 0;
  if (kind == NormKind::kLayer) {
    float sum = 0;
    for (int at = first; at < dim; at += kGroup * kVec) {
      const auto pack = *reinterpret_cast<const Pack<T, kVec>*>(x + at);
#pragma unroll
      for (int j = 0; j < kVec; ++j) sum += to_float(pack.at[j]);
    }
    mean = sum_over_group<kGroup>(sum) / static_cast<float>(dim);
  }
  float squares = 0;
  for (int at = first; at < dim; at += kGroup * kVec) {
    const auto pack = *reinterpret_cast<const Pack<T, kVec>*>(x + at);
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const float centred = to_float(pack.at[j]) - mean;
      squares += centred * centred;
    }
  }
  squares = sum_over_group<kGroup>(squares);
  return {mean, 1 / sqrtf(squares / static_cast<float>(dim) + eps)};
}

template <typename T>
struct Forward {
  NormKind kind;
  float eps;
  float weight_offset;
  const T* x;
  const T* weight;
  const T* bias;  // or null
  T* y;
  Runs runs;
};

template <int kGroup, int kVec, typename T>
__global__ void __launch_bounds__(kBlock) forward_kernel(Forward<T> args) {
  const std::int64_t run = static_cast<std::int64_t>(blockIdx.x) * (kBlock / kGroup) + threadIdx.x / kGroup;
  if (run >= args.runs.num_runs) return;  // a whole group does
  const std::int64_t base = args.runs.first_of(run);
  const int dim = args.runs.dim;
  const T* x = args.x + base;
  const Statistics stats = statistics<kGroup, kVec>(args.kind, args.eps, x, dim);
  for (int at = static_cast<int>(threadIdx.x) % kGroup * kVec; at < dim; at += kGroup * kVec) {
    const auto pack = *reinterpret_cast<const Pack<T, kVec>*>(x + at);
    const auto weight = *reinterpret_cast<const Pack<T, kVec>*>(args.weight + at);
    Pack<T, kVec> out;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const float x_hat = (to_float(pack.at[j]) - stats.mean) * stats.inverse;
      float value = x_hat * (to_float(weight.at[j]) + args.weight_offset);
      if (args.bias != nullptr) value += to_float(args.bias[at + j]);
      out.at[j] = from_float<T>(value);
    }
    *reinterpret_cast<Pack<T, kVec>*>(args.y + base + at) = out;
  }
}

template <typename T>
struct Backward {
  NormKind kind;
  float eps;
  float weight_offset;
  const T* x;
  const T* weight;
  const T* dy;
  T* dx;
  float* parts;  // (blocks, sums_each * dim), or null: no gradients of weights
  bool sums_bias;
  bool in_shared;  // else a group sums where its part ends up
  std::int64_t runs_per_block;
  Runs runs;
};

// With g = dy * w: dx = (g - mean(g) - x-hat * mean(g * x-hat)) * inverse, without mean(g) for RMS.
template <int kGroup, int kVec, typename T>
__global__ void __launch_bounds__(kBlock) backward_kernel(Backward<T> args) {
  constexpr int kGroups = kBlock / kGroup;
  extern __shared__ float shared[];
  const int dim = args.runs.dim;
  const int group = static_cast<int>(threadIdx.x) / kGroup;
  const int first = static_cast<int>(threadIdx.x) % kGroup * kVec;
  const int sums_each = args.sums_bias ? 2 : 1;
  float* const part = args.parts + static_cast<std::int64_t>(blockIdx.x) * sums_each * dim;
  float* const sums = args.in_shared ? shared + group * sums_each * dim : part;
  if (args.parts != nullptr) {
    for (int at = first; at < dim; at += kGroup * kVec) {
      for (int j = 0; j < kVec; ++j) {
        sums[at + j] = 0;
        if (args.sums_bias) sums[dim + at + j] = 0;
      }
    }
  }

  const std::int64_t first_run = blockIdx.x * args.runs_per_block;
  const std::int64_t end = min(args.runs.num_runs, first_run + args.runs_per_block);
  for (std::int64_t run = first_run + group; run < end; run += kGroups) {
    const std::int64_t base = args.runs.first_of(run);
    const T* x = args.x + base;
    const T* dy = args.dy + base;
    const Statistics stats = statistics<kGroup, kVec>(args.kind, args.eps, x, dim);
    float g_x_hat = 0;
    float g_sum = 0;
    for (int at = first; at < dim; at += kGroup * kVec) {
      const auto x_pack = *reinterpret_cast<const Pack<T, kVec>*>(x + at);
      const auto dy_pack = *reinterpret_cast<const Pack<T, kVec>*>(dy + at);
      const auto weight = *reinterpret_cast<const Pack<T, kVec>*>(args.weight + at);
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const float x_hat = (to_float(x_pack.at[j]) - stats.mean) * stats.inverse;
        const float grad = to_float(dy_pack.at[j]);
        const float w = to_float(weight.at[j]) + args.weight_offset;
        g_x_hat += grad * x_hat * w;
        g_sum += grad * w;
        if (args.parts != nullptr) {
          sums[at + j] += grad * x_hat;
          if (args.sums_bias) sums[dim + at + j] += grad;
        }
      }
    }
    const float count = static_cast<float>(dim);
    const float g_x_hat_mean = sum_over_group<kGroup>(g_x_hat) / count;
    const float g_mean = args.kind == NormKind::kLayer ? sum_over_group<kGroup>(g_sum) / count : 0;
    for (int at = first; at < dim; at += kGroup * kVec) {
      const auto x_pack = *reinterpret_cast<const Pack<T, kVec>*>(x + at);
      const auto dy_pack = *reinterpret_cast<const Pack<T, kVec>*>(dy + at);
      const auto weight = *reinterpret_cast<const Pack<T, kVec>*>(args.weight + at);
      Pack<T, kVec> out;
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const float x_hat = (to_float(x_pack.at[j]) - stats.mean) * stats.inverse;
        const float g = to_float(dy_pack.at[j]) * (to_float(weight.at[j]) + args.weight_offset);
        out.at[j] = from_float<T>((g - g_mean - x_hat * g_x_hat_mean) * stats.inverse);
      }
      *reinterpret_cast<Pack<T, kVec>*>(args.dx + base + at) = out;
    }
  }

  if (args.parts == nullptr || !args.in_shared) return;
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < sums_each * dim; at += kBlock) {
    float sum = shared[at];
    for (int other = 1; other < kGroups; ++other) sum += shared[other * sums_each * dim + at];
    part[at] = sum;
  }
}

// The same for RMS where a block's threads hold a whole run in registers: it is read once, and summed over once.
template <int kPacks, int kVec, typename T>
__global__ void __launch_bounds__(kBlock) held_backward_kernel(Backward<T> args) {
  using P = Pack<T, kVec>;
  constexpr int kStride = kBlock * kVec;
  __shared__ float2 of_warp[2][kBlock / kWarp];  // in turns, so that one barrier a run is enough
  const int dim = args.runs.dim;
  const int first = static_cast<int>(threadIdx.x) * kVec;
  P weight[kPacks];
  float sums[kPacks][kVec] = {};
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    const int at = first + pack * kStride;
    if (at < dim) weight[pack] = *reinterpret_cast<const P*>(args.weight + at);
  }
  const std::int64_t first_run = blockIdx.x * args.runs_per_block;
  const std::int64_t end = min(args.runs.num_runs, first_run + args.runs_per_block);
  for (std::int64_t run = first_run; run < end; ++run) {
    const std::int64_t base = args.runs.first_of(run);
    P x[kPacks];
    P dy[kPacks];
    float2 both{0, 0};  // squares, and g * x
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const int at = first + pack * kStride;
      if (at >= dim) continue;
      x[pack] = *reinterpret_cast<const P*>(args.x + base + at);
      dy[pack] = *reinterpret_cast<const P*>(args.dy + base + at);
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const float value = to_float(x[pack].at[j]);
        both.x += value * value;
        both.y += value * (to_float(dy[pack].at[j]) * (to_float(weight[pack].at[j]) + args.weight_offset));
      }
    }
    both.x = over_warp(both.x, Sum());
    both.y = over_warp(both.y, Sum());
    float2* const turn = of_warp[(run - first_run) % 2];
    if (threadIdx.x % kWarp == 0) turn[threadIdx.x / kWarp] = both;
    __syncthreads();
    both = turn[0];
#pragma unroll
    for (int warp = 1; warp < kBlock / kWarp; ++warp) {
      both.x += turn[warp].x;
      both.y += turn[warp].y;
    }
    const float count = static_cast<float>(dim);
    const float inverse = 1 / sqrtf(both.x / count + args.eps);
    const float g_x_hat_mean = both.y * inverse / count;
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const int at = first + pack * kStride;
      if (at >= dim) continue;
      P out;
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const float x_hat = to_float(x[pack].at[j]) * inverse;
        const float grad = to_float(dy[pack].at[j]);
        const float g = grad * (to_float(weight[pack].at[j]) + args.weight_offset);
        out.at[j] = from_float<T>((g - x_hat * g_x_hat_mean) * inverse);
        sums[pack][j] += grad * x_hat;
      }
      *reinterpret_cast<P*>(args.dx + base + at) = out;
    }
  }
  if (args.parts == nullptr) return;
  float* const part = args.parts + static_cast<std::int64_t>(blockIdx.x) * dim;
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    const int at = first + pack * kStride;
    if (at >= dim) continue;
#pragma unroll
    for (int j = 0; j < kVec; ++j) part[at + j] = sums[pack][j];
  }
}

template <typename Args>
Runs runs_of(const Args& args) {
  return {.num_runs = args.x.shape()[0] * args.columns.num_runs,
          .runs_each = args.columns.num_runs,
          .width = args.x.shape()[1],
          .first_col = args.columns.first_col,
          .dim = static_cast<int>(args.weight.shape()[0])};
}

// use(group, vec) as integral constants: how many threads take a run, how many elements they load at once.
template <typename T, typename Use>
void with_group(const Runs& runs, bool aligned, const Use& use) {
  constexpr int kVec = kFullVec<T>;
  const bool vectors = aligned && runs.dim % kVec == 0 && runs.width % kVec == 0 && runs.first_col % kVec == 0;
  const auto with_vec = [&](auto vec) {
    if (runs.dim <= kMaxWarpDim) {
      use(std::integral_constant<int, kWarp>(), vec);
    } else {
      use(std::integral_constant<int, kBlock>(), vec);
    }
  };
  if (vectors) {
    with_vec(std::integral_constant<int, kVec>());
  } else {
    with_vec(std::integral_constant<int, 1>());
  }
}

float weight_offset(NormKind kind) { return kind == NormKind::kRmsPlusOne ? 1.0F : 0.0F; }

}  // namespace

void norm_forward(CudaStream& stream, const NormForward& args) {
  const Runs runs = runs_of(args);
  if (runs.num_runs == 0) return;
  with_float_type(args.x.dtype(), [&](auto element) {
    using T = decltype(element);
    const Forward<T> on_card{.kind = args.kind,
                             .eps = args.eps,
                             .weight_offset = weight_offset(args.kind),
                             .x = data<T>(args.x),
                             .weight = data<T>(args.weight),
                             .bias = args.bias.bytes().empty() ? nullptr : data<T>(args.bias),
                             .y = data<T>(args.y),
                             .runs = runs};
    const bool aligned = is_aligned_for_vectors(on_card.x) && is_aligned_for_vectors(on_card.weight) &&
                         is_aligned_for_vectors(on_card.y);
    with_group<T>(runs, aligned, [&](auto group, auto vec) {
      const auto num_blocks = static_cast<unsigned>(div_up(runs.num_runs, kBlock / group()));
      launch<forward_kernel<group(), vec(), T>, kBlock>(stream, num_blocks, on_card);
    });
  });
}

void norm_backward(CudaStream& stream, const NormBackward& args) {
  const Runs runs = runs_of(args);
  if (runs.num_runs == 0) return;
  const bool sums_weight = !args.dweight.bytes().empty();
  const bool sums_bias = !args.dbias.bytes().empty();
  const bool sums = sums_weight || sums_bias;
  const std::int64_t sums_each = sums_bias ? 2 : 1;
  const int groups = runs.dim <= kMaxWarpDim ? kBlock / kWarp : 1;
  const PartialSums cut = cut_into_parts(runs.num_runs, sums_each * runs.dim, 4 * groups);
  const std::uint64_t part_bytes =
      sums ? static_cast<std::uint64_t>(cut.num_parts * sums_each * runs.dim) * sizeof(float) : 0;
  const Scratch scratch = stream.scratch(part_bytes, "the backward of a norm");
  const std::int64_t shared_bytes = groups * sums_each * runs.dim * static_cast<std::int64_t>(sizeof(float));
  const bool in_shared = sums && shared_bytes <= kMaxSharedBytes;
  CHECK(!sums || in_shared || groups == 1, "sums of several groups are in shared memory");

  with_float_type(args.x.dtype(), [&](auto element) {
    using T = decltype(element);
    const Backward<T> on_card{.kind = args.kind,
                              .eps = args.eps,
                              .weight_offset = weight_offset(args.kind),
                              .x = data<T>(args.x),
                              .weight = data<T>(args.weight),
                              .dy = data<T>(args.dy),
                              .dx = data<T>(args.dx),
                              .parts = sums ? scratch.as<float>() : nullptr,
                              .sums_bias = sums_bias,
                              .in_shared = in_shared,
                              .runs_per_block = cut.items_per_part,
                              .runs = runs};
    const bool aligned = is_aligned_for_vectors(on_card.x) && is_aligned_for_vectors(on_card.weight) &&
                         is_aligned_for_vectors(on_card.dy) && is_aligned_for_vectors(on_card.dx);
    with_group<T>(runs, aligned, [&](auto group, auto vec) {
      if constexpr (group() == kBlock && vec() > 1) {
        const std::int64_t num_packs = div_up(runs.dim, kBlock * vec());
        if (args.kind != NormKind::kLayer && !sums_bias && num_packs <= 4) {
          const auto num_parts = static_cast<unsigned>(cut.num_parts);
          if (num_packs == 1) {
            launch<held_backward_kernel<1, vec(), T>, kBlock>(stream, num_parts, on_card);
          } else if (num_packs == 2) {
            launch<held_backward_kernel<2, vec(), T>, kBlock>(stream, num_parts, on_card);
          } else {
            launch<held_backward_kernel<4, vec(), T>, kBlock>(stream, num_parts, on_card);
          }
          return;
        }
      }
      launch_sized<backward_kernel<group(), vec(), T>, kBlock, kMaxSharedBytes>(
          stream, static_cast<unsigned>(cut.num_parts), in_shared ? static_cast<int>(shared_bytes) : 0, on_card);
    });
  });
  const auto add_to = [&](const TensorView& gradient, std::int64_t first) {
    add_parts(stream, {.sums = data<float>(gradient),
                       .parts = scratch.as<float>() + first,
                       .num_parts = cut.num_parts,
                       .stride = sums_each * runs.dim,
                       .num_cols = runs.dim});
  };
  if (sums_weight) add_to(args.dweight, 0);
  if (sums_bias) add_to(args.dbias, runs.dim);
}

}  // namespace sluice::cuda
