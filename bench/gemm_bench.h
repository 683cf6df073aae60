// SPDX-License-Identifier: Apache-2.0
// How fast matrix products of the shapes that training and generation have run on the CPU, beside what the instruction
// that they use could reach: in every round of every product, runs of it and of the loop that finds the peak take turns
// on the same threads. A product's share is the best of its runs over the best of the loop's, the median of all rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "ops/cpu/gemm_path.h"

namespace sluice {

struct GemmBenchOptions {
  std::size_t num_threads = 1;
  int num_rounds = 5;
  std::optional<GemmPath> path;  // the best for each type where there is none
};

struct GemmBenchResult {
  struct Peak {
    GemmPath path = GemmPath::kBaseline;
    double gflops = 0;       // median of all rounds
    double best_gflops = 0;  // the largest
  };
  struct Case {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    DType dtype = DType::kF32;
    std::string form;  // "x W^T", "dY W" or "dY^T X"
    GemmPath path = GemmPath::kBaseline;
    double gflops = 0;
    double of_peak = 0;                    // of the path's, as measured beside it
    std::optional<double> of_loaded_peak;  // AMX: of the loop that loads its tiles, gemm_peak.h
    double weight_gb_per_s = 0;
  };
  std::vector<Peak> peaks;                  // of every path that is available
  std::optional<double> amx_loaded_gflops;  // the median, with tiles that are loaded; see gemm_peak.h
  std::optional<double> amx_zeros_gflops;   // on zeros
  std::vector<Case> cases;
};

// Throws InvalidInput where the path is not available, Cancelled when interrupted.
GemmBenchResult run_gemm_bench(const GemmBenchOptions& options, const ProgressSink& progress);

}  // namespace sluice
