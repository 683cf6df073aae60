// SPDX-License-Identifier: Apache-2.0
// The JSON of one row: bounded in depth and in the number of its values, since what follows copies it by recursion and
// looks keys up one after the other. Pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace sluice {

// Keys keep their order: chat templates print objects as they come.
using RowJson = nlohmann::ordered_json;

// Throws BadRow if the text is not JSON; `key` is the row's key that holds it, empty for a row itself. Throws Cancelled
// once `interrupted`, unless empty, returns true. Linear in the text's length.
RowJson parse_row_json(std::string_view text, const std::string& key, const std::function<bool()>& interrupted = {});

// A value as part of a sentence: `17`, `"yes"`, `a list of 3`, `an object`, `null`.
std::string describe_row_json(const RowJson& value);

}  // namespace sluice
