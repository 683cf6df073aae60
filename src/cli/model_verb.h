// SPDX-License-Identifier: Apache-2.0
// `sluice model`: what a checkpoint is, and checkpoints of known shapes to plan and measure with.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_model_verb(CLI::App& app);

}  // namespace sluice
