// SPDX-License-Identifier: Apache-2.0
// The checks of a run that goes on: its record, the state that belongs to it, the files that it began with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "io/file.h"
#include "io/io_engine.h"
#include "train/run_record.h"
#include "train/train_config.h"

namespace sluice {

// Whether a run goes on where the files that it was made from have changed.
enum class ChangedInputs : std::uint8_t { kRefuse, kAccept };

// The record in output_dir, or one made anew, with a warning, where it is lost or damaged. Where `config` names other
// cache folders than `begun_caches`, those the run began with, the state is looked for in them.
RunRecord resumed_record(FileSystem& files, IoEngine& engine, const TrainConfig& config,
                         const std::vector<std::string>& begun_caches, std::int64_t now_unix_s);

// Throws InvalidInput where a directory holds the state of another run, or of the run that output_dir is a copy of.
void require_own_stores(FileSystem& files, IoEngine& engine, const RunRecord& record, const std::string& output_dir);

// The fingerprints as they are now. Throws InvalidInput that names what has changed, unless that is accepted.
std::vector<RunInput> require_same_inputs(const RunRecord& record, const TrainConfig& config, ChangedInputs changed,
                                          const ProgressSink& progress);

}  // namespace sluice
