// SPDX-License-Identifier: Apache-2.0
// What may follow `|`: trim, tojson, map, join and so on, as Jinja2 has them; tojson as transformers replaces it.
// Nothing is escaped but what is joined to text that `safe` or `escape` has marked, as in Jinja2.
#pragma once

#include <string_view>

#include "text/jinja_interpreter.h"

namespace sluice {

using JinjaFilter = JinjaValue (*)(JinjaInterpreter&, const JinjaValue&, JinjaArguments);

// Null where there is none of that name.
JinjaFilter find_jinja_filter(std::string_view name);

// The text as Markup: escaped unless it is marked already.
JinjaValue escaped_markup(JinjaInterpreter& interpreter, const JinjaValue& value);

// Its parts, by what the filters work on.
JinjaFilter find_jinja_text_filter(std::string_view name);
JinjaFilter find_jinja_sequence_filter(std::string_view name);
JinjaFilter find_jinja_number_filter(std::string_view name);

}  // namespace sluice
