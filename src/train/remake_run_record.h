// SPDX-License-Identifier: Apache-2.0
// run.json of a run that lost it.
#pragma once

#include <cstdint>
#include <string>

#include "io/file.h"
#include "io/io_engine.h"
#include "train/run_record.h"
#include "train/train_config.h"

namespace sluice {

// Whether a folder without run.json has what a run leaves: a configuration as it was in force, and its state or log.
bool looks_like_run(FileSystem& files, const std::string& folder);

// Lists the files that have the names a run gives, and takes id and beginning from the owner.json of the run's state.
// Throws InvalidInput where the state is not found.
RunRecord remake_run_record(FileSystem& files, IoEngine& engine, const TrainConfig& config, std::int64_t now_unix_s);

}  // namespace sluice
