// SPDX-License-Identifier: Apache-2.0
// `sluice tokenize`: shows what a model's tokenizer makes of a text, or of ids.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
}

namespace sluice {

void add_tokenize_verb(CLI::App& app);

}  // namespace sluice
