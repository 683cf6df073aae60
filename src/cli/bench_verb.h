// SPDX-License-Identifier: Apache-2.0
// `sluice bench`: how fast the parts are, beside a peer or a link measured in the same run.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_bench_verb(CLI::App& app);

}  // namespace sluice
