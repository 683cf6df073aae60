// SPDX-License-Identifier: Apache-2.0
// Whether a path is a file that has an end: opening a pipe would wait for whoever writes to it, and a device never
// ends.
#pragma once

#include <string>

namespace sluice {

// Throws InvalidInput where the path is there and is a directory, a pipe, a socket or a device; also for a loop of
// links.
void require_regular_file(const std::string& path);

// Whether it is there. Throws as above.
bool is_regular_file(const std::string& path);

}  // namespace sluice
