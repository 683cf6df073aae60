// SPDX-License-Identifier: Apache-2.0
// `sluice plan`: whether a training run fits, where every byte goes and how long it takes.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_plan_verb(CLI::App& app);

}  // namespace sluice
