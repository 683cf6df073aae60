// SPDX-License-Identifier: Apache-2.0
// What may follow `is`: defined, none, string, divisibleby(3) and so on.
#pragma once

#include <string_view>

#include "text/jinja_interpreter.h"

namespace sluice {

using JinjaPredicate = bool (*)(JinjaInterpreter&, const JinjaValue&, const JinjaArguments&);

// Null where there is none of that name.
JinjaPredicate find_jinja_predicate(std::string_view name);

}  // namespace sluice
