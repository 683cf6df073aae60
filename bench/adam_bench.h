// SPDX-License-Identifier: Apache-2.0
// How fast AdamW updates parameters in host memory, for each form of weights and moments, beside a plain copy of as
// many bytes in the same memory on the same threads, which is measured beside every round. Bytes count as they are read
// and again as they are written, for updates and copies alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"

namespace sluice {

struct AdamBenchOptions {
  std::int64_t num_parameters = 0;
  std::size_t num_threads = 1;
  int num_rounds = 5;
};

struct AdamBenchResult {
  struct Case {
    std::string weights;  // "f32", or "bf16+16": cut in two
    std::string gradients;
    std::string moments;
    double bytes_per_parameter = 0;  // read and written
    double parameters_per_s = 0;
    double gb_per_s = 0;
    double copy_gb_per_s = 0;
    double of_copy = 0;
  };
  std::vector<Case> cases;
};

// 64 million where memory has room for that several times over, else less; enough to leave the caches in any case.
std::int64_t default_adam_bench_parameters();

// Throws OutOfBudget where the memory is not there, Cancelled when interrupted.
AdamBenchResult run_adam_bench(const AdamBenchOptions& options, const ProgressSink& progress);

}  // namespace sluice
