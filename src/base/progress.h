// SPDX-License-Identifier: Apache-2.0
// How long work reports how far it is, and learns that it should stop. Both ends are the caller's: the command line
// draws a bar, a test counts.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace sluice {

// Unit of `done` and `total`.
enum class ProgressUnit : std::uint8_t { kBytes, kRows, kSlices, kSteps, kRounds, kMeasurements };

struct WorkProgress {
  std::string_view what;  // "reading rows"; a new name starts a new phase
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  ProgressUnit unit = ProgressUnit::kBytes;
};

struct ProgressSink {
  // Called from the working thread, often.
  std::function<void(const WorkProgress&)> report = [](const WorkProgress&) {};
  // True once the user has asked to stop.
  std::function<bool()> interrupted = [] { return false; };
};

}  // namespace sluice
