// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm.h"

#include <algorithm>
#include <vector>

#include "base/bf16.h"
#include "base/units.h"

namespace sluice::cpu {
namespace {

// One item makes one block of C: a 64 x 64 sum that takes A and B in as floats, 256 of k at a time.
constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kPanel = 256;

float element(const TensorView& tensor, std::int64_t at) {
  return tensor.dtype() == DType::kF32 ? tensor.as<float>()[static_cast<std::size_t>(at)]
                                       : to_float(tensor.as<BF16>()[static_cast<std::size_t>(at)]);
}

void set_element(const TensorView& tensor, std::int64_t at, float value) {
  if (tensor.dtype() == DType::kF32) {
    tensor.as<float>()[static_cast<std::size_t>(at)] = value;
  } else {
    tensor.as<BF16>()[static_cast<std::size_t>(at)] = to_bf16(value);
  }
}

struct Scratch {
  std::vector<float> a = std::vector<float>(kPanel * kBlock);    // (k, m)
  std::vector<float> b = std::vector<float>(kPanel * kBlock);    // (k, n)
  std::vector<float> sum = std::vector<float>(kBlock * kBlock);  // (m, n)
};

template <typename T>
void load_panel(std::vector<float>& to, const T* from, std::int64_t stride_k, std::int64_t stride_row,
                std::int64_t num_k, std::int64_t num_rows) {
  std::fill(to.begin(), to.end(), 0.0F);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    for (std::int64_t at = 0; at < num_k; ++at) {
      const T value = from[at * stride_k + row * stride_row];
      if constexpr (std::is_same_v<T, BF16>) {
        to[static_cast<std::size_t>(at * kBlock + row)] = to_float(value);
      } else {
        to[static_cast<std::size_t>(at * kBlock + row)] = value;
      }
    }
  }
}

template <typename T>
void sum_block(const Gemm& args, Scratch& scratch, std::int64_t first_m, std::int64_t first_n) {
  const GemmExtents extents = gemm_extents(args);
  const std::int64_t num_m = std::min(kBlock, extents.m - first_m);
  const std::int64_t num_n = std::min(kBlock, extents.n - first_n);
  const bool a_is_km = args.transpose_a == Transpose::kYes;
  const bool b_is_nk = args.transpose_b == Transpose::kYes;
  const std::int64_t a_k = a_is_km ? extents.m : 1;
  const std::int64_t a_m = a_is_km ? 1 : extents.k;
  const std::int64_t b_k = b_is_nk ? 1 : extents.n;
  const std::int64_t b_n = b_is_nk ? extents.k : 1;
  std::fill(scratch.sum.begin(), scratch.sum.end(), 0.0F);
  for (std::int64_t first_k = 0; first_k < extents.k; first_k += kPanel) {
    const std::int64_t num_k = std::min(kPanel, extents.k - first_k);
    load_panel(scratch.a, args.a.as<T>().data() + first_k * a_k + first_m * a_m, a_k, a_m, num_k, num_m);
    load_panel(scratch.b, args.b.as<T>().data() + first_k * b_k + first_n * b_n, b_k, b_n, num_k, num_n);
    for (std::int64_t m = 0; m < num_m; ++m) {
      float* const sum = scratch.sum.data() + m * kBlock;
      for (std::int64_t at = 0; at < num_k; ++at) {
        const float a = scratch.a[static_cast<std::size_t>(at * kBlock + m)];
        const float* const b = scratch.b.data() + at * kBlock;
        for (std::int64_t n = 0; n < kBlock; ++n) sum[n] += a * b[n];
      }
    }
  }
  for (std::int64_t m = 0; m < num_m; ++m) {
    for (std::int64_t n = 0; n < num_n; ++n) {
      const std::int64_t at = (first_m + m) * extents.n + first_n + n;
      float value = scratch.sum[static_cast<std::size_t>(m * kBlock + n)];
      if (has_bias(args)) value += element(args.bias, first_n + n);
      if (args.into == Into::kAdd) value += element(args.c, at);
      set_element(args.c, at, value);
    }
  }
}

}  // namespace

void gemm(WorkerTeam& team, const Gemm& args) {
  const GemmExtents extents = gemm_extents(args);
  const auto blocks_m = static_cast<std::int64_t>(div_ceil(static_cast<std::uint64_t>(extents.m), kBlock));
  const auto blocks_n = static_cast<std::int64_t>(div_ceil(static_cast<std::uint64_t>(extents.n), kBlock));
  std::vector<Scratch> scratch(team.num_threads());
  team.for_each(blocks_m * blocks_n, [&](std::int64_t item_idx, std::size_t worker_idx) {
    const std::int64_t first_m = item_idx / blocks_n * kBlock;
    const std::int64_t first_n = item_idx % blocks_n * kBlock;
    if (args.a.dtype() == DType::kF32) {
      sum_block<float>(args, scratch[worker_idx], first_m, first_n);
    } else {
      sum_block<BF16>(args, scratch[worker_idx], first_m, first_n);
    }
  });
}

}  // namespace sluice::cpu
