// SPDX-License-Identifier: Apache-2.0
// Arithmetic and comparison between Jinja values, with Python's rules. Integers have 64 bits: what does not fit is
// refused.
#pragma once

#include <string_view>

#include "text/jinja_interpreter.h"
#include "text/jinja_value.h"

namespace sluice {

// + - * / // % **
JinjaValue apply_operator(JinjaInterpreter& interpreter, std::string_view sign, const JinjaValue& left,
                          const JinjaValue& right);
JinjaValue apply_sign(char sign, const JinjaValue& value);
// == != < <= > >= in, not in
bool compare(JinjaInterpreter& interpreter, std::string_view sign, const JinjaValue& left, const JinjaValue& right);

}  // namespace sluice
