// SPDX-License-Identifier: Apache-2.0
// Python's two ways to format text: '%s and %.2f' % values, and '{} and {:.2f}'.format(values).
#pragma once

#include <string>
#include <string_view>

#include "text/jinja_interpreter.h"

namespace sluice {

// `values` is a tuple of them, a dict for %(name)s, or the only one.
std::string format_percent(JinjaInterpreter& interpreter, std::string_view format, const JinjaValue& values);
std::string format_braces(JinjaInterpreter& interpreter, std::string_view format, const JinjaArguments& arguments);

}  // namespace sluice
