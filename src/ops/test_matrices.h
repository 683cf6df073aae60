// SPDX-License-Identifier: Apache-2.0
// Matrices for tests of products, and what their product is in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/bf16.h"
#include "base/random.h"
#include "ops/cpu/gemm_path.h"
#include "ops/gemm.h"
#include "tensor/tensor_view.h"

namespace sluice {

class Matrix {
 public:
  Matrix() = default;
  Matrix(DType dtype, std::int64_t rows, std::int64_t columns)
      : dtype_(dtype),
        rows_(rows),
        columns_(columns),
        size_bytes_(static_cast<std::size_t>(rows * columns) * size_bytes(dtype)),
        memory_((size_bytes_ + sizeof(Line) - 1) / sizeof(Line)) {}

  static Matrix random(DType dtype, std::int64_t rows, std::int64_t columns, Random& random) {
    Matrix matrix(dtype, rows, columns);
    for (std::int64_t at = 0; at < rows * columns; ++at)
      matrix.set(at, static_cast<float>(random.next() >> 40) * 0x1p-23F - 1);
    return matrix;
  }

  double get(std::int64_t at) const {
    if (dtype_ == DType::kF32) return view().as<float>()[static_cast<std::size_t>(at)];
    return to_float(view().as<BF16>()[static_cast<std::size_t>(at)]);
  }
  void set(std::int64_t at, float value) const {
    if (dtype_ == DType::kF32) {
      view().as<float>()[static_cast<std::size_t>(at)] = value;
    } else {
      view().as<BF16>()[static_cast<std::size_t>(at)] = to_bf16(value);
    }
  }
  TensorView view() const { return {bytes(), dtype_, Shape({rows_, columns_})}; }
  TensorView vector_view() const { return {bytes(), dtype_, Shape({rows_ * columns_})}; }
  bool same_bits(const Matrix& other) const {
    return size_bytes_ == other.size_bytes_ &&
           (size_bytes_ == 0 || std::memcmp(memory_.data(), other.memory_.data(), size_bytes_) == 0);
  }

 private:
  struct alignas(64) Line {  // as tensors begin
    std::byte bytes[64] = {};
  };

  std::span<std::byte> bytes() const { return {reinterpret_cast<std::byte*>(memory_.data()), size_bytes_}; }

  DType dtype_ = DType::kF32;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::size_t size_bytes_ = 0;
  mutable std::vector<Line> memory_;
};

struct Extents {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

struct Operands {
  Matrix a;
  Matrix b;
  Matrix bias;
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
};

inline Operands random_operands(DType dtype, Extents extents, Transpose transpose_a, Transpose transpose_b,
                                Random& random) {
  Operands operands;
  operands.a = transpose_a == Transpose::kYes ? Matrix::random(dtype, extents.k, extents.m, random)
                                              : Matrix::random(dtype, extents.m, extents.k, random);
  operands.b = transpose_b == Transpose::kYes ? Matrix::random(dtype, extents.n, extents.k, random)
                                              : Matrix::random(dtype, extents.k, extents.n, random);
  operands.bias = Matrix::random(dtype, 1, extents.n, random);
  operands.transpose_a = transpose_a;
  operands.transpose_b = transpose_b;
  return operands;
}

struct Reference {
  std::vector<double> value;
  std::vector<double> magnitude;  // the sum of what was added, without signs: rounding errors grow with it
};

inline Reference product(const Operands& operands, Extents extents) {
  Reference reference;
  const bool a_is_km = operands.transpose_a == Transpose::kYes;
  const bool b_is_nk = operands.transpose_b == Transpose::kYes;
  std::vector<double> a(static_cast<std::size_t>(extents.m * extents.k));  // (m, k)
  std::vector<double> b(static_cast<std::size_t>(extents.n * extents.k));  // (n, k)
  for (std::int64_t k = 0; k < extents.k; ++k) {
    for (std::int64_t m = 0; m < extents.m; ++m) {
      a[static_cast<std::size_t>(m * extents.k + k)] = operands.a.get(a_is_km ? k * extents.m + m : m * extents.k + k);
    }
    for (std::int64_t n = 0; n < extents.n; ++n) {
      b[static_cast<std::size_t>(n * extents.k + k)] = operands.b.get(b_is_nk ? n * extents.k + k : k * extents.n + n);
    }
  }
  for (std::int64_t m = 0; m < extents.m; ++m) {
    for (std::int64_t n = 0; n < extents.n; ++n) {
      double value = 0;
      double magnitude = 0;
      for (std::int64_t k = 0; k < extents.k; ++k) {
        const double term =
            a[static_cast<std::size_t>(m * extents.k + k)] * b[static_cast<std::size_t>(n * extents.k + k)];
        value += term;
        magnitude += std::abs(term);
      }
      reference.value.push_back(value);
      reference.magnitude.push_back(magnitude);
    }
  }
  return reference;
}

inline Gemm gemm_of(const Operands& operands, const Matrix& c, Into into = Into::kOverwrite) {
  return {.a = operands.a.view(),
          .b = operands.b.view(),
          .c = c.view(),
          .bias = {},
          .transpose_a = operands.transpose_a,
          .transpose_b = operands.transpose_b,
          .into = into};
}

inline bool has_path(GemmPath path) {
  const std::vector<GemmPath>& paths = gemm_paths_available();
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

inline constexpr Transpose kTransposes[] = {Transpose::kNo, Transpose::kYes};
inline constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};

}  // namespace sluice
