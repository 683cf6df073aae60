// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace sluice {

void add_plan_verb(CLI::App& app);

}  // namespace sluice
