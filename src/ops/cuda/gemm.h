// SPDX-License-Identifier: Apache-2.0
// Matrix products through cuBLASLt. What the library thinks best for a shape is asked once and kept, so a shape is
// computed in one way for as long as the device lives. Only ways that give the same bits every time are asked for.
// f32 is f32: no shorter formats inside. Thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "device/cuda/cuda_stream.h"
#include "ops/cuda/cublas_lt.h"
#include "ops/gemm.h"

namespace sluice::cuda {

// What a choice depends on.
struct GemmKey {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  DType operands = DType::kF32;
  DType result = DType::kF32;
  bool adds_bias = false;  // as the product is written
  Into into = Into::kOverwrite;
  // That the addresses are multiples of, 256 at most.
  std::uint32_t a_alignment = 256;
  std::uint32_t b_alignment = 256;
  std::uint32_t c_alignment = 256;

  auto operator<=>(const GemmKey&) const = default;
};

class Gemms {
 public:
  // What a product may use of the scratch memory; less where there is less.
  static constexpr std::uint64_t kWorkspaceBytes = 32 * 1024 * 1024;

  Gemms();
  ~Gemms();

  void run(CudaStream& stream, const Gemm& args);

 private:
  struct Plan;

  Plan& plan_for(const GemmKey& key, const void* bias, std::uint64_t workspace_bytes);

  std::mutex mutex_;
  std::unique_ptr<CublasLt> library_;  // null: no product yet
  std::map<GemmKey, std::unique_ptr<Plan>> plans_;
};

}  // namespace sluice::cuda
