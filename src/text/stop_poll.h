// SPDX-License-Identifier: Apache-2.0
// How long work on one text learns that it should stop: called for every small step, it asks every few thousand, and
// throws Cancelled where the answer is yes. Borrows the question, which may be empty. One thread.
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
