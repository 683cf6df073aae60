// SPDX-License-Identifier: Apache-2.0
// `sluice generate`: lets a checkpoint continue a prompt, so that a person can see it work.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_generate_verb(CLI::App& app);

}  // namespace sluice
