// SPDX-License-Identifier: Apache-2.0
// `sluice export`: a model in the formats of other programs.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_export_verb(CLI::App& app);

}  // namespace sluice
