// SPDX-License-Identifier: Apache-2.0
// Fingerprints of the files that a run is made from, so that a run that goes on does not silently go on with others.
// Files up to 64 MiB and data sets are hashed whole, larger ones by size and sampled blocks.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "train/run_record.h"
#include "train/train_config.h"

namespace sluice {

// Throws InvalidInput where a file cannot be read; Cancelled.
std::vector<RunInput> fingerprint_inputs(const TrainConfig& config, const ProgressSink& progress);

// What differs, a clause for each file: "base_model: /m/config.json has changed". A file of the same size and hash
// counts as the same whatever its time of modification. Held-out rows may be others: the configuration may name them
// anew.
std::vector<std::string> changed_inputs(const std::vector<RunInput>& begun, const std::vector<RunInput>& now);

}  // namespace sluice
