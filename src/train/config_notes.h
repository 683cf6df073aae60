// SPDX-License-Identifier: Apache-2.0
// Keys of a configuration that were given and change nothing beside its other keys: a line for each reason, so that
// nobody waits for what cannot come. What contradicts another key is refused instead, in config_settle.h.
#pragma once

#include <string>
#include <vector>

#include "train/config_keys.h"

namespace sluice {

// Of a draft that is settled. A key with its default value is no wish, and not noted: a run's own config.yaml has all
// of them.
std::vector<std::string> config_notes(const ConfigDraft& draft);

}  // namespace sluice
