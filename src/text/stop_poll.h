// SPDX-License-Identifier: Apache-2.0
// Cancellation of work on one text: called for every small step, it polls every few thousand steps, and throws
// Cancelled if the poll returns true. Borrows the poll function, which may be empty. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>

#include "base/error.h"

namespace sluice {

class StopPoll {
 public:
  StopPoll() = default;
  explicit StopPoll(const std::function<bool()>& interrupted) : interrupted_(interrupted ? &interrupted : nullptr) {}

  void operator()() {
    if (interrupted_ == nullptr || ++num_steps_ % kStepsPerPoll != 0) return;
    if ((*interrupted_)()) throw Cancelled("stopped while a text was made into tokens");
  }

 private:
  static constexpr std::uint32_t kStepsPerPoll = 4096;

  const std::function<bool()>* interrupted_ = nullptr;
  std::uint32_t num_steps_ = 0;
};

}  // namespace sluice
