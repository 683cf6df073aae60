// SPDX-License-Identifier: Apache-2.0
// The methods of Python's str.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/jinja_arguments.h"
#include "text/jinja_interpreter.h"

namespace sluice {

bool has_text_method(std::string_view name);
// The method must exist.
JinjaValue call_text_method(JinjaInterpreter& interpreter, const std::string& text, std::string_view name,
                            JinjaArguments arguments);

// str.replace(); any number of times where `max_count` is negative.
std::string metered_replace(JinjaInterpreter& interpreter, std::string_view text, std::string_view from,
                            std::string_view to, std::int64_t max_count);

}  // namespace sluice
