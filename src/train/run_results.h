// SPDX-License-Identifier: Apache-2.0
// train_results.json of a run's folder, in Hugging Face's fields: what a finished run came to. It is written after the
// model and removed when the run goes on, so where it stands beside a model the run is finished.
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
  std::uint64_t steps = 0;  // done; fewer than planned after an early stop
  double epoch = 0;
  std::uint64_t total_tokens = 0;
  double loss = 0;       // mean over the steps of the last session
  double elapsed_s = 0;  // of training, over all sessions
};

void write_run_results(FileSystem& files, IoEngine& engine, const std::string& run_dir, const RunResults& results);
// Nothing where the run is not finished, or no model or adapter is there any more.
std::optional<RunResults> find_finished_run(const std::string& run_dir);

}  // namespace sluice
