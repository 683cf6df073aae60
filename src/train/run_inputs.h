// SPDX-License-Identifier: Apache-2.0
// Fingerprints of a run's input files, so that a resumed run detects changed inputs. Data sets and files of up to 64
// MiB are hashed whole, larger ones by size and sampled blocks.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "train/run_record.h"
#include "train/train_config.h"

namespace sluice {

// Throws InvalidInput if a file cannot be read; Cancelled.
std::vector<RunInput> fingerprint_inputs(const TrainConfig& config, const ProgressSink& progress);

// The differences, one clause per file: "base_model: /m/config.json has changed". Size and hash decide, not the
// modification time. Held-out rows may differ: a resumed configuration may name others.
std::vector<std::string> changed_inputs(const std::vector<RunInput>& begun, const std::vector<RunInput>& now);

}  // namespace sluice
