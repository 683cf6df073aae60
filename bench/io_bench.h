// SPDX-License-Identifier: Apache-2.0
// How fast the I/O engine reads and writes large files through the stripe set, beside fio on the same files in the
// same run: rounds alternate, medians are compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "io/choose_engine.h"

namespace sluice {

struct IoBenchOptions {
  std::vector<std::string> directories;
  std::uint64_t size_bytes = 0;  // over all directories
  int num_rounds = 5;
  EngineWish engine = EngineWish::kAuto;
  enum class Against { kNothing, kFio } against = Against::kNothing;
};

struct IoBenchResult {
  struct Direction {
    double gb_per_s = 0;
    std::optional<double> fio_gb_per_s;
  };
  std::string engine;
  Direction read;
  Direction write;
};

// Throws InvalidInput where a directory, the space in it or fio is missing, Cancelled when interrupted. Leaves nothing.
IoBenchResult run_io_bench(const IoBenchOptions& options, const ProgressSink& progress);

}  // namespace sluice
