// SPDX-License-Identifier: Apache-2.0
// The methods of Python's values that templates call: text.strip(), message.get('x'), loop.cycle(...). Those that
// would change a list or a dict are forbidden, as in the sandbox that chat templates are made for.
#pragma once

#include <string_view>

#include "text/jinja_interpreter.h"
#include "text/jinja_object.h"

namespace sluice {

bool has_jinja_method(const JinjaValue& owner, std::string_view name);
// The method must exist.
JinjaValue call_jinja_method(JinjaInterpreter& interpreter, const JinjaValue& owner, std::string_view name,
                             JinjaArguments arguments);

// Names with leading underscores that Python has, and methods that change their object.
bool is_forbidden_attribute(const JinjaValue& owner, std::string_view name);

}  // namespace sluice
