// SPDX-License-Identifier: Apache-2.0
// Warnings about given keys that have no effect beside the configuration's other keys: one line per reason.
// Contradictory keys are rejected instead, in config_settle.h.
#pragma once

#include <string>
#include <vector>

#include "train/config_keys.h"

namespace sluice {

// `draft` has been settled. A key with its default value is not noted: a run's own config.yaml lists all keys.
std::vector<std::string> config_notes(const ConfigDraft& draft);

}  // namespace sluice
