// SPDX-License-Identifier: Apache-2.0
// What an instruction set brings to a blocked matrix product: how it wants its two operands laid out, how it multiplies
// two such panels into a tile of sums, and how a finished tile is written. gemm_blocked.h does the rest.
//
// The product is R S^T: `rows` r of R and `columns` s of S, both with k along. Panels hold kernel.rows rows of R, or
// kernel.columns of S, and at most panel_k of k; what a panel lacks is zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/gemm.h"

namespace sluice::cpu {

// Element (row, k) of an operand stands at data[row * row_stride + k * k_stride]; one of the strides is 1.
struct GemmSource {
  const std::byte* data = nullptr;
  std::int64_t element_bytes = 0;
  std::int64_t row_stride = 0;
  std::int64_t k_stride = 0;

  const std::byte* at(std::int64_t row, std::int64_t k) const {
    return data + (row * row_stride + k * k_stride) * element_bytes;
  }
};

inline GemmSource gemm_source_a(const Gemm& args) {
  const GemmExtents extents = gemm_extents(args);
  const bool is_km = args.transpose_a == Transpose::kYes;
  return {.data = args.a.bytes().data(),
          .element_bytes = static_cast<std::int64_t>(size_bytes(args.a.dtype())),
          .row_stride = is_km ? 1 : extents.k,
          .k_stride = is_km ? extents.m : 1};
}

// Of its transpose: rows are those of n.
inline GemmSource gemm_source_b(const Gemm& args) {
  const GemmExtents extents = gemm_extents(args);
  const bool is_nk = args.transpose_b == Transpose::kYes;
  return {.data = args.b.bytes().data(),
          .element_bytes = static_cast<std::int64_t>(size_bytes(args.b.dtype())),
          .row_stride = is_nk ? extents.k : 1,
          .k_stride = is_nk ? 1 : extents.n};
}

struct GemmTile {
  float* sums = nullptr;  // (rows, columns), dense
  const std::byte* rows = nullptr;
  const std::byte* columns = nullptr;
  std::int64_t num_k = 0;  // of both panels, not padded
  bool is_first = false;   // sums hold nothing yet
};

struct GemmOutput {
  std::byte* c = nullptr;  // (m, n)
  DType c_dtype = DType::kF32;
  std::int64_t num_columns = 0;  // n
  const std::byte* bias = nullptr;
  DType bias_dtype = DType::kF32;
  Into into = Into::kOverwrite;
};

inline GemmOutput gemm_output(const Gemm& args) {
  return {.c = args.c.bytes().data(),
          .c_dtype = args.c.dtype(),
          .num_columns = args.c.shape()[1],
          .bias = has_bias(args) ? args.bias.bytes().data() : nullptr,
          .bias_dtype = args.bias.dtype(),
          .into = args.into};
}

// Where a tile goes in C, and how much of it.
struct GemmPlace {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t num_m = 0;
  std::int64_t num_n = 0;
};

struct GemmKernel {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t k_step = 0;        // panels are padded to multiples of it
  std::int64_t panel_k = 0;       // a multiple of k_step
  std::int64_t packed_bytes = 0;  // of an element in a panel
  // A block of C that one thread sums at a time is at most this large, so that its sums and panels stay in the L2.
  std::int64_t max_local = 0;
  std::int64_t max_shared = 0;
  // What is packed of the shared operand at once, unless that is less than max_shared rows: enough to keep all threads
  // busy for a while, small enough for a cache that they share.
  std::int64_t stretch_bytes = 8 << 20;
  // What packing a row of the operand that each thread packs for itself costs, and fetching one of the other, in
  // columns that could be multiplied meanwhile.
  std::int64_t local_cost = 0;
  std::int64_t shared_cost = 0;

  // As many panels as the rows fill, one after the other; num_k is panel_k at most.
  void (*pack_rows)(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) = nullptr;
  void (*pack_columns)(std::byte* to, const GemmSource& from, std::int64_t num_rows, std::int64_t num_k) = nullptr;
  void (*multiply)(const GemmTile& tile) = nullptr;
  void (*write)(const GemmOutput& output, const GemmPlace& place, const float* sums, std::int64_t stride) = nullptr;
};

}  // namespace sluice::cpu
