// SPDX-License-Identifier: Apache-2.0
// `sluice template`: a conversation as a model's chat template renders it, and what in it is the assistant's.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_template_verb(CLI::App& app);

}  // namespace sluice
