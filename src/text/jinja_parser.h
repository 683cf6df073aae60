// SPDX-License-Identifier: Apache-2.0
// Jinja's grammar: tokens to statements. Nesting is limited, filters and tests must be known (inside a condition only
// when it is met, since templates ask first), and what chat templates have no use for (inheritance, imports) is
// refused by name. Throws JinjaSyntaxError.
#pragma once

#include <string_view>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace sluice {

struct JinjaProgram {
  JinjaBody body;
  bool has_generation = false;
};

JinjaProgram parse_jinja(std::string_view source);

}  // namespace sluice
