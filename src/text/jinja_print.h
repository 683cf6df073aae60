// SPDX-License-Identifier: Apache-2.0
// How Jinja values look: Python's str() and repr(), and JSON as Python's json.dumps writes it. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja_value.h"

namespace sluice {

// The shortest digits that read back the same, laid out like Python: 1.0, 1e-05, 1e+16, inf.
std::string python_float(double value);

std::string to_text(const JinjaValue& value, JinjaMeter& meter);
std::string to_repr(const JinjaValue& value, JinjaMeter& meter);
std::string text_repr(std::string_view text);

struct JsonStyle {
  enum class Escapes { kControls, kNonAscii };
  Escapes escapes = Escapes::kControls;
  enum class Order { kAsInserted, kSorted };
  Order order = Order::kAsInserted;
  std::optional<std::string> indent;  // what a level is indented by; on one line without it
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Throws where a value has no form in JSON.
std::string to_json(const JinjaValue& value, const JsonStyle& style, JinjaMeter& meter);

}  // namespace sluice
