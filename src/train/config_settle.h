// SPDX-License-Identifier: Apache-2.0
// What follows from several keys together: defaults that depend on others, words that mean others, wishes that
// contradict each other. Settling what is settled changes nothing.
#pragma once

#include "train/config_keys.h"

namespace sluice {

// Completes the draft, with a warning for each key that has no effect. Throws InvalidInput naming the place of an
// unsupported or contradictory key.
ReadConfig settle_config(ConfigDraft draft, const std::string& file);

}  // namespace sluice
