// SPDX-License-Identifier: Apache-2.0
// The config.json of models that people plan and measure with, by name: their sizes, not their weights.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace sluice {

std::vector<std::string> known_shapes();

// Loads in transformers 4 and 5. Throws InvalidInput that lists the names where there is none such.
nlohmann::ordered_json known_config(const std::string& name);

}  // namespace sluice
