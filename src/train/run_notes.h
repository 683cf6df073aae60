// SPDX-License-Identifier: Apache-2.0
// Warnings about settings without effect, given the model and the length of the run. One sentence each, for the user.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "train/train_config.h"

namespace sluice {

// The model's context length, with RoPE scaling.
std::int64_t context_tokens(const Architecture& arch);

std::vector<std::string> run_notes(const TrainConfig& config, const Architecture& arch, std::uint64_t total_steps);

}  // namespace sluice
