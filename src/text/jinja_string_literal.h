// SPDX-License-Identifier: Apache-2.0
// The escapes in a string literal of a template, which are those of Python's "unicode-escape". Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// What stands between the quotes, resolved. Unknown escapes stay as they are; nothing where one is cut short, names a
// character (\N{...}) or half a surrogate pair.
std::optional<std::string> unescape_python(std::string_view literal);

}  // namespace sluice
