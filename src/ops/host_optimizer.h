// SPDX-License-Identifier: Apache-2.0
// Optimizers for a lane that updates in host memory, whatever the device is: they return when the update is done. The
// same numbers as their namesakes on a CPU stream.
#pragma once

#include "base/worker_team.h"
#include "ops/adamw.h"
#include "ops/sgd.h"

namespace sluice {

void adamw(WorkerTeam& team, const AdamW& args);
void sgd(WorkerTeam& team, const Sgd& args);

}  // namespace sluice
