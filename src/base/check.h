// SPDX-License-Identifier: Apache-2.0
// CHECK states what must hold if the program has no bug. It is active in release builds: it prints the place, the
// condition and the message, then aborts.
#pragma once

#include <string_view>

namespace sluice {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view message);

}  // namespace sluice

#define CHECK(condition, message) \
  ((condition) ? static_cast<void>(0) : ::sluice::check_failed(__FILE__, __LINE__, #condition, (message)))
