// SPDX-License-Identifier: Apache-2.0
// What a configuration asks for that its model or the length of its run will not give: known once both are. A sentence
// for each, for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "train/train_config.h"

namespace sluice {

// Positions up to which the model was made to read: with what stretches its rotary embedding.
std::int64_t context_tokens(const Architecture& arch);

std::vector<std::string> run_notes(const TrainConfig& config, const Architecture& arch, std::uint64_t total_steps);

}  // namespace sluice
