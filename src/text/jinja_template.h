// SPDX-License-Identifier: Apache-2.0
// A Jinja template, rendered as Python's Jinja2 renders it under transformers: a sandbox that changes nothing,
// trim_blocks, lstrip_blocks, {% break %}, {% continue %} and {% generation %}. Parsed once; rendering is const and may
// happen on several threads. A template is somebody else's program: it is bounded in time, memory and depth.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "text/jinja_interpreter.h"
#include "text/jinja_meter.h"
#include "text/jinja_parser.h"

namespace sluice {

class JinjaTemplate {
 public:
  // `where` names the template in failures (a path). Throws FormatError where it is not one.
  JinjaTemplate(std::string_view source, std::string where);

  // `variables` is an object. `unix_time_s` is the time for strftime_now(). `watched`: the list whose iterations are
  // recorded, see JinjaInterpreter. Throws FormatError if the template fails and InvalidInput if it rejects the
  // variables with raise_exception().
  JinjaOutput render(const nlohmann::ordered_json& variables, std::int64_t unix_time_s, const JinjaLimits& limits = {},
                     std::string_view watched = {}) const;

  bool has_generation() const { return program_.has_generation; }
  const std::string& where() const { return where_; }
  // Whether the source contains the text: a key that it does not contain cannot be looked up by name.
  bool mentions(std::string_view text) const { return source_.find(text) != std::string::npos; }

 private:
  std::string where_;
  std::string source_;
  JinjaProgram program_;
};

}  // namespace sluice
