// SPDX-License-Identifier: Apache-2.0
// Cuts a Jinja template into tokens, with the whitespace rules chat templates are rendered under: trim_blocks (the
// newline after a block tag goes), lstrip_blocks (so do the blanks before one that starts a line), and `-` and `+`
// inside the tags, which overrule both. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct JinjaToken {
  enum class Kind {
    kData,
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;  // data, a name, an operator, or a string with its escapes resolved
  std::int64_t integer = 0;
  double number = 0;
  int line = 1;
};

struct JinjaSyntaxError {
  std::string message;
  int line = 0;
};

// Throws JinjaSyntaxError. The source must be UTF-8. The last token is kEnd.
std::vector<JinjaToken> lex_jinja(std::string_view source);

}  // namespace sluice
