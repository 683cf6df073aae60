// SPDX-License-Identifier: Apache-2.0
// The `datasets` of a configuration: Axolotl's list of mappings, LLaMA-Factory's names with commas, or a list of paths.
// Pure functions; the files are not looked at.
#pragma once

#include <string>
#include <vector>

#include "train/config_value.h"
#include "train/train_config.h"

namespace sluice {

std::vector<DatasetChoice> read_datasets(const ConfigValue& value);
std::string write_datasets(const std::vector<DatasetChoice>& datasets);

}  // namespace sluice
