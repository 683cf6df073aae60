// SPDX-License-Identifier: Apache-2.0
// `sluice store`: looks after the slice stores in cache directories.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_store_verb(CLI::App& app);

}  // namespace sluice
