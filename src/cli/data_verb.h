// SPDX-License-Identifier: Apache-2.0
// `sluice data`: looks at training data before anything is trained on it.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_data_verb(CLI::App& app);

}  // namespace sluice
