// SPDX-License-Identifier: Apache-2.0
// A block takes a token. It goes over the logits once for the largest and the sum of exponentials together, each thread
// for its own share with a running maximum, and once more for the gradient.
#include <cmath>

#include "ops/cuda/cross_entropy.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/reduction.cuh"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kVec = 4;

// As in memory, kSoftmaxStatistics floats a token.
struct Statistics {
  float largest;
  float label;
  double sum;
};
static_assert(sizeof(Statistics) == kSoftmaxStatistics * sizeof(float));

// What a logit becomes, and the slope of that.
struct Capped {
  float value;
  float slope;
};
struct NoCap {
  __device__ Capped of(float logit) const { return {logit, 1}; }
};
struct TanhCap {
  float cap;

  // The slope 1 - tanh^2 is 4 e / (1 + e)^2 with e = exp(-2 |x|): no cancellation.
  __device__ Capped of(float logit) const {
    const float x = logit / cap;
    const float e = expf(-2 * fabsf(x));
    return {cap * tanhf(x), 4 * e / ((1 + e) * (1 + e))};
  }
};

struct Softmax {
  float largest;  // capped logit
  float sum;      // of exp(capped logit - largest)
};

// A sum relative to one maximum, relative to another that is not below it.
__device__ float shrunk(float sum, float from, float to) { return from == to ? sum : sum * expf(from - to); }

__device__ Softmax merged(Softmax a, Softmax b) {
  const float largest = fmaxf(a.largest, b.largest);
  return {largest, shrunk(a.sum, a.largest, largest) + shrunk(b.sum, b.largest, largest)};
}

// Calls visit(index, logit) for the thread's share, in packs where the row allows.
template <typename Visit>
__device__ void over_row(const float* logits, std::int64_t width, const Visit& visit) {
  const bool vectors = width % kVec == 0 && reinterpret_cast<std::uintptr_t>(logits) % 16 == 0;
  if (vectors) {
    for (std::int64_t at = static_cast<std::int64_t>(threadIdx.x) * kVec; at < width; at += kThreads * kVec) {
      const auto pack = *reinterpret_cast<const Pack<float, kVec>*>(logits + at);
#pragma unroll
      for (int j = 0; j < kVec; ++j) visit(at + j, pack.at[j]);
    }
  } else {
    for (std::int64_t at = threadIdx.x; at < width; at += kThreads) visit(at, logits[at]);
  }
}

template <class Cap>
__device__ Softmax softmax_of(const Cap& cap, const float* logits, std::int64_t width) {
  Softmax mine{-INFINITY, 0};
  over_row(logits, width, [&](std::int64_t /*at*/, float logit) {
    const float value = cap.of(logit).value;
    if (value > mine.largest) {
      mine.sum = shrunk(mine.sum, mine.largest, value);
      mine.largest = value;
    }
    // A thread that has met nothing but -inf adds nothing: the row's maximum decides.
    if (value != -INFINITY) mine.sum += expf(value - mine.largest);
  });
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    mine = merged(mine,
                  {__shfl_xor_sync(kAllLanes, mine.largest, distance), __shfl_xor_sync(kAllLanes, mine.sum, distance)});
  }
  __shared__ Softmax of_warp[kThreads / kWarp];
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
  __syncthreads();
  mine = of_warp[0];
  for (int warp = 1; warp < kThreads / kWarp; ++warp) mine = merged(mine, of_warp[warp]);
  __syncthreads();
  return mine;
}

// dlogits may be logits: a thread reads no logit but those it writes over. A label beyond the width is in another
// range.
template <class Cap, typename T>
__device__ void write_gradient(const Cap& cap, float largest, double sum, std::int64_t label, const float* logits,
                               T* dlogits, std::int64_t width, float grad_scale) {
  const auto factor = static_cast<float>(static_cast<double>(grad_scale) / sum);
  const auto grad_of = [&](std::int64_t at, float raw) {
    const Capped logit = cap.of(raw);
    const float e = expf(logit.value - largest);
    if (at == label) {
      return static_cast<float>((static_cast<double>(e) / sum - 1) * static_cast<double>(grad_scale)) * logit.slope;
    }
    return e * factor * logit.slope;
  };
  const bool vectors = width % kVec == 0 && reinterpret_cast<std::uintptr_t>(logits) % 16 == 0 &&
                       reinterpret_cast<std::uintptr_t>(dlogits) % sizeof(Pack<T, kVec>) == 0;
  if (vectors) {
    for (std::int64_t at = static_cast<std::int64_t>(threadIdx.x) * kVec; at < width; at += kThreads * kVec) {
      const auto pack = *reinterpret_cast<const Pack<float, kVec>*>(logits + at);
      Pack<T, kVec> out;
#pragma unroll
      for (int j = 0; j < kVec; ++j) out.at[j] = from_float<T>(grad_of(at + j, pack.at[j]));
      *reinterpret_cast<Pack<T, kVec>*>(dlogits + at) = out;
    }
  } else {
    for (std::int64_t at = threadIdx.x; at < width; at += kThreads) {
      dlogits[at] = from_float<T>(grad_of(at, logits[at]));
    }
  }
}

template <typename T>
__device__ void write_zeros(T* to, std::int64_t width) {
  for (std::int64_t at = threadIdx.x; at < width; at += kThreads) to[at] = from_float<T>(0);
}

template <typename T>
struct Entropy {
  const float* logits;
  const std::int32_t* labels;
  float* losses;
  T* dlogits;  // or null
  std::int64_t vocab;
  float grad_scale;
  FaultSlot faults;
};

template <class Cap, typename T>
__global__ void __launch_bounds__(kThreads) entropy_kernel(Entropy<T> args, Cap cap) {
  const std::int64_t token = blockIdx.x;
  const std::int64_t label = args.labels[token];
  const float* const logits = args.logits + token * args.vocab;
  T* const dlogits = args.dlogits == nullptr ? nullptr : args.dlogits + token * args.vocab;
  if (label < 0 || label >= args.vocab) {
    if (threadIdx.x == 0) {
      args.losses[token] = 0;
      if (label != kIgnoreLabel) {
        args.faults.write(FaultKind::kLabel, static_cast<std::int32_t>(token), label, args.vocab);
      }
    }
    if (dlogits != nullptr) write_zeros(dlogits, args.vocab);
    return;
  }
  const float of_label = cap.of(logits[label]).value;  // read by all before any thread writes: softmax_of waits
  const Softmax row = softmax_of(cap, logits, args.vocab);
  const auto sum = static_cast<double>(row.sum);
  if (threadIdx.x == 0) {
    args.losses[token] =
        static_cast<float>(log(sum) + (static_cast<double>(row.largest) - static_cast<double>(of_label)));
  }
  if (dlogits != nullptr) {
    write_gradient(cap, row.largest, sum, label, logits, dlogits, args.vocab, args.grad_scale);
  }
}

struct Range {
  const float* logits;
  const std::int32_t* labels;
  Statistics* statistics;
  std::int64_t width;
  std::int64_t first_id;
  Into into;
};

template <class Cap>
__global__ void __launch_bounds__(kThreads) statistics_kernel(Range args, Cap cap) {
  const std::int64_t token = blockIdx.x;
  const std::int64_t label = args.labels[token];
  if (label == kIgnoreLabel) return;
  const float* const logits = args.logits + token * args.width;
  const Softmax row = softmax_of(cap, logits, args.width);
  if (threadIdx.x != 0) return;
  Statistics all{row.largest, 0, static_cast<double>(row.sum)};
  if (args.into == Into::kAdd) {
    const Statistics before = args.statistics[token];
    const float largest = fmaxf(before.largest, row.largest);
    const auto of = [&](double sum, float from) {
      return sum * exp(static_cast<double>(from) - static_cast<double>(largest));
    };
    all = {largest, before.label, of(before.sum, before.largest) + of(static_cast<double>(row.sum), row.largest)};
  }
  const std::int64_t at = label - args.first_id;
  if (at >= 0 && at < args.width) all.label = cap.of(logits[at]).value;
  args.statistics[token] = all;
}

template <typename T>
struct RangeGradient {
  const float* logits;
  const std::int32_t* labels;
  const Statistics* statistics;
  T* dlogits;
  std::int64_t width;
  std::int64_t first_id;
  float grad_scale;
};

template <class Cap, typename T>
__global__ void __launch_bounds__(kThreads) range_gradient_kernel(RangeGradient<T> args, Cap cap) {
  const std::int64_t token = blockIdx.x;
  const std::int64_t label = args.labels[token];
  T* const dlogits = args.dlogits + token * args.width;
  if (label == kIgnoreLabel) {
    write_zeros(dlogits, args.width);
    return;
  }
  const Statistics all = args.statistics[token];
  write_gradient(cap, all.largest, all.sum, label - args.first_id, args.logits + token * args.width, dlogits,
                 args.width, args.grad_scale);
}

__global__ void losses_kernel(const Statistics* statistics, const std::int32_t* labels, float* losses,
                              std::int64_t num_tokens) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (token >= num_tokens) return;
  float loss = 0;
  if (labels[token] != kIgnoreLabel) {
    const Statistics all = statistics[token];
    loss = static_cast<float>(log(all.sum) + (static_cast<double>(all.largest) - static_cast<double>(all.label)));
  }
  losses[token] = loss;
}

__global__ void cap_kernel(float* values, std::int64_t count, TanhCap cap) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < count) values[at] = cap.of(values[at]).value;
}

template <typename Use>
void with_cap(float cap, const Use& use) {
  if (cap > 0) {
    use(TanhCap{cap});
  } else {
    use(NoCap());
  }
}

unsigned blocks_for(std::int64_t count, int threads) { return static_cast<unsigned>(div_up(count, threads)); }

}  // namespace

void cross_entropy(CudaStream& stream, const CrossEntropy& args) {
  const std::int64_t num_tokens = args.logits.shape()[0];
  if (num_tokens == 0) return;
  const bool wanted = !args.dlogits.bytes().empty();
  with_float_type(wanted ? args.dlogits.dtype() : DType::kF32, [&](auto element) {
    using T = decltype(element);
    const Entropy<T> on_card{.logits = data<float>(args.logits),
                             .labels = data<std::int32_t>(args.labels),
                             .losses = data<float>(args.losses),
                             .dlogits = wanted ? data<T>(args.dlogits) : nullptr,
                             .vocab = args.logits.shape()[1],
                             .grad_scale = args.grad_scale,
                             .faults = stream.fault_slot()};
    with_cap(args.soft_cap, [&](auto cap) {
      launch<entropy_kernel<decltype(cap), T>, kThreads>(stream, static_cast<unsigned>(num_tokens), on_card, cap);
    });
  });
}

void softmax_statistics(CudaStream& stream, const SoftmaxRange& args) {
  const std::int64_t num_tokens = args.logits.shape()[0];
  if (num_tokens == 0) return;
  const Range on_card{.logits = data<float>(args.logits),
                      .labels = data<std::int32_t>(args.labels),
                      .statistics = data<Statistics>(args.statistics),
                      .width = args.logits.shape()[1],
                      .first_id = args.first_id,
                      .into = args.into};
  with_cap(args.soft_cap, [&](auto cap) {
    launch<statistics_kernel<decltype(cap)>, kThreads>(stream, static_cast<unsigned>(num_tokens), on_card, cap);
  });
}

void losses_of_statistics(CudaStream& stream, const TensorView& statistics, const TensorView& labels,
                          const TensorView& losses) {
  const std::int64_t num_tokens = labels.shape()[0];
  if (num_tokens == 0) return;
  launch<losses_kernel, 128>(stream, blocks_for(num_tokens, 128), data<Statistics>(statistics),
                             data<std::int32_t>(labels), data<float>(losses), num_tokens);
}

void softmax_gradient(CudaStream& stream, const SoftmaxGradient& args) {
  const std::int64_t num_tokens = args.logits.shape()[0];
  if (num_tokens == 0) return;
  with_float_type(args.dlogits.dtype(), [&](auto element) {
    using T = decltype(element);
    const RangeGradient<T> on_card{.logits = data<float>(args.logits),
                                   .labels = data<std::int32_t>(args.labels),
                                   .statistics = data<Statistics>(args.statistics),
                                   .dlogits = data<T>(args.dlogits),
                                   .width = args.logits.shape()[1],
                                   .first_id = args.first_id,
                                   .grad_scale = args.grad_scale};
    with_cap(args.soft_cap, [&](auto cap) {
      launch<range_gradient_kernel<decltype(cap), T>, kThreads>(stream, static_cast<unsigned>(num_tokens), on_card,
                                                                cap);
    });
  });
}

void soft_cap(CudaStream& stream, const TensorView& values, float cap) {
  const std::int64_t count = values.shape().num_elements();
  if (count == 0) return;
  launch<cap_kernel, kThreads>(stream, blocks_for(count, kThreads), data<float>(values), count, TanhCap{cap});
}

}  // namespace sluice::cuda
