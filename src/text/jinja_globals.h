// SPDX-License-Identifier: Apache-2.0
// The functions every template can call: namespace(), range(), raise_exception(), strftime_now() and a few more.
#pragma once

#include <string_view>

#include "text/jinja_object.h"

namespace sluice {

// Null where there is none of that name.
JinjaFunction::Body find_jinja_global(std::string_view name);

}  // namespace sluice
