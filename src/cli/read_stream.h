// SPDX-License-Identifier: Apache-2.0
// What a user hands to a verb whole, by a file or a pipe.
#pragma once

#include <istream>
#include <string>

namespace sluice {

// All there is. Throws InvalidInput, naming `where`, for more than 256 MiB: a device has no end.
std::string read_stream(std::istream& stream, const std::string& where);

}  // namespace sluice
