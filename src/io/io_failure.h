// SPDX-License-Identifier: Apache-2.0
// One home for the sentence that goes with an errno: which are the user's to mend, and how.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace sluice {

// Intended use of a path, which selects the remedy: advice to create a mistyped input path would mislead.
enum class PathRole : std::uint8_t {
  kExisting,   // a file or directory to read
  kNewFile,    // a file to create
  kDirectory,  // a directory to write into
};

// "cannot <action> '<path>': <reason>; <remedy>" as InvalidInput or IoError, whichever the errno is.
[[noreturn]] void throw_io_failure(int errno_value, std::string_view action, const std::string& path,
                                   PathRole role = PathRole::kExisting);
// For a transfer on a file that is open: always an IoError, since what the user named was in order.
std::exception_ptr transfer_failure(int errno_value, std::string_view action, const std::string& path);

}  // namespace sluice
