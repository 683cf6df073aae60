// SPDX-License-Identifier: Apache-2.0
// Where a config says that the head is the embedding and the checkpoint has a head of its own, that one counts unless
// the two are the same, as in transformers.
#pragma once

#include "format/checkpoint.h"
#include "model/description.h"

namespace sluice {

// The description, with its head untied where that is so. Reads both matrices where the checkpoint has both.
ModelDescription with_own_head(ModelDescription model, const Checkpoint& checkpoint);

}  // namespace sluice
