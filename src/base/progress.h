// SPDX-License-Identifier: Apache-2.0
// How long work reports how far it is, and learns that it should stop. Both ends are the caller's: the command line
// draws a bar, a test counts.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace sluice {

struct ProgressSink {
  // (what is being done, done, total); called from the working thread, often.
  std::function<void(std::string_view, std::uint64_t, std::uint64_t)> report = [](std::string_view, std::uint64_t,
                                                                                  std::uint64_t) {};
  // True once the user has asked to stop.
  std::function<bool()> interrupted = [] { return false; };
};

}  // namespace sluice
