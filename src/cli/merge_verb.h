// SPDX-License-Identifier: Apache-2.0
// `sluice merge`: a base and a LoRA adapter of it, saved as one model.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_merge_verb(CLI::App& app);

}  // namespace sluice
