// SPDX-License-Identifier: Apache-2.0
// `sluice env`: what Sluice finds on this machine and what it would choose. Writes nothing that stays.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_env_verb(CLI::App& app);

}  // namespace sluice
