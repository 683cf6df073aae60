// SPDX-License-Identifier: Apache-2.0
// `sluice eval`: the loss of a model over data files, as training reports it for held-out rows.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_eval_verb(CLI::App& app);

}  // namespace sluice
