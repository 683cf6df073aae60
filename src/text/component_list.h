// SPDX-License-Identifier: Apache-2.0
// Components of tokenizer.json come alone or as a Sequence of others, which may be Sequences again. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "text/json_view.h"

namespace sluice {

// `view` laid flat: itself, or what the Sequence holds under `list_key`, in order. Throws FormatError where Sequences
// are nested beyond reason or hold too many.
std::vector<JsonView> flatten_components(const JsonView& view, std::string_view list_key);

}  // namespace sluice
