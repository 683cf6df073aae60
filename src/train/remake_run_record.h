// SPDX-License-Identifier: Apache-2.0
// Reconstructs the run.json of a run that lost it.
#pragma once

#include <cstdint>
#include <string>

#include "io/file.h"
#include "io/io_engine.h"
#include "train/run_record.h"
#include "train/train_config.h"

namespace sluice {

// Whether a folder without run.json looks like a run's: it has a settled configuration, and run state or a log.
bool looks_like_run(FileSystem& files, const std::string& folder);

// Lists the files whose names a run uses, and takes id and start time from the owner.json of the run's state. Throws
// InvalidInput if the state is not found.
RunRecord remake_run_record(FileSystem& files, IoEngine& engine, const TrainConfig& config, std::int64_t now_unix_s);

}  // namespace sluice
