// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_template.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/utf8.h"

namespace sluice {
namespace {

JinjaProgram parse_or_throw(std::string_view source, const std::string& where) {
  if (!is_utf8(source)) throw FormatError(fmt::format("{} is not UTF-8", where));
  try {
    return parse_jinja(source);
  } catch (const JinjaSyntaxError& error) {
    throw FormatError(fmt::format("{}, line {}: {}", where, error.line, error.message));
  }
}

}  // namespace

JinjaTemplate::JinjaTemplate(std::string_view source, std::string where)
    : where_(std::move(where)), source_(source), program_(parse_or_throw(source, where_)) {}

JinjaOutput JinjaTemplate::render(const nlohmann::ordered_json& variables, std::int64_t unix_time_s,
                                  const JinjaLimits& limits, std::string_view watched) const {
  JinjaValue values;
  try {
    values = JinjaValue::from_json(variables);
  } catch (const JinjaFailure& error) {
    throw InvalidInput(fmt::format("what {} is to be rendered with cannot be used: {}", where_, error.what()));
  }
  if (!values.is_dict()) throw InvalidInput(fmt::format("{} needs a JSON object of variables", where_));
  JinjaInterpreter interpreter(program_, values.as_dict(), limits, unix_time_s, watched);
  try {
    return interpreter.run();
  } catch (const JinjaRefusal& refusal) {
    throw InvalidInput(
        fmt::format("{}, line {}, refuses the conversation: {}", where_, interpreter.line(), refusal.what()));
  } catch (const JinjaFailure& error) {
    throw FormatError(fmt::format("{}, line {}: {}", where_, interpreter.line(), error.what()));
  }
}

}  // namespace sluice
