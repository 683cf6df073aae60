// SPDX-License-Identifier: Apache-2.0
// Results of a finished run: train_results.json in its folder, with Hugging Face's fields. It is written after the
// model and removed when the run is resumed, so its presence beside a model means that the run is finished.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

inline constexpr std::string_view kRunResultsName = "train_results.json";

struct RunResults {
  std::uint64_t steps = 0;  // steps done; fewer than planned after early stopping
  double epoch = 0;
  std::uint64_t total_tokens = 0;
  double loss = 0;       // mean over the steps of the last session
  double elapsed_s = 0;  // training time over all sessions
};

void write_run_results(FileSystem& files, IoEngine& engine, const std::string& run_dir, const RunResults& results);
// nullopt: the run is not finished, or its model or adapter is missing.
std::optional<RunResults> find_finished_run(const std::string& run_dir);

}  // namespace sluice
