// SPDX-License-Identifier: Apache-2.0
// Resource limits of one rendering. A template is untrusted code, so every operation is charged: steps for time, bytes
// for memory, depth for the stack. Exceeding a limit ends the rendering with an error of one sentence. Cancellation is
// polled every few milliseconds. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"

namespace sluice {

struct JinjaLimits {
  std::uint64_t max_steps = 50'000'000;
  std::uint64_t max_output_bytes = std::uint64_t{64} << 20;
  std::uint64_t max_allocated_bytes = std::uint64_t{1} << 30;  // over the whole rendering, freed or not
  // Returns true once the user has asked to stop: the rendering throws Cancelled. Empty: not cancellable.
  std::function<bool()> interrupted = {};
};

// A mistake in a template, before it is known where; JinjaTemplate adds the place.
class JinjaFailure : public std::runtime_error {
 public:
  explicit JinjaFailure(const std::string& message) : std::runtime_error(without_zero_bytes(message)) {}
};

// What raise_exception() in a template throws: the template is right, the messages are not.
class JinjaRefusal : public std::runtime_error {
 public:
  explicit JinjaRefusal(const std::string& message) : std::runtime_error(without_zero_bytes(message)) {}
};

class JinjaMeter {
 public:
  explicit JinjaMeter(const JinjaLimits& limits) : limits_(limits) {}

  void step(std::uint64_t num_steps = 1) {
    num_steps_ += num_steps;
    if (num_steps_ > limits_.max_steps) {
      throw JinjaFailure(fmt::format("it ran longer than {} steps; is a loop endless?", limits_.max_steps));
    }
    if (num_steps_ >= next_poll_) poll();
  }

  // Called before the memory is taken. Moving bytes takes time too: 64 of them count as a step.
  void allocate(std::uint64_t size_bytes) {
    if (size_bytes > limits_.max_allocated_bytes - allocated_bytes_) {
      throw JinjaFailure(fmt::format("it needs more than {} bytes of memory", limits_.max_allocated_bytes));
    }
    allocated_bytes_ += size_bytes;
    step(size_bytes / 64);
  }

  void allocate(std::uint64_t count, std::uint64_t item_bytes) {
    allocate(count > limits_.max_allocated_bytes / item_bytes ? UINT64_MAX : count * item_bytes);
  }

  void check_output(std::size_t size_bytes) const {
    if (size_bytes > limits_.max_output_bytes) {
      throw JinjaFailure(fmt::format("its text grew longer than {} bytes", limits_.max_output_bytes));
    }
  }

 private:
  static constexpr std::uint64_t kStepsPerPoll = std::uint64_t{1} << 14;

  void poll() {
    next_poll_ = num_steps_ + kStepsPerPoll;
    if (limits_.interrupted && limits_.interrupted()) throw Cancelled("stopped while a conversation was rendered");
  }

  JinjaLimits limits_;
  std::uint64_t num_steps_ = 0;
  std::uint64_t next_poll_ = kStepsPerPoll;
  std::uint64_t allocated_bytes_ = 0;
};

// Where a long text's characters begin takes eight times its memory, for a moment.
inline void charge_offsets(JinjaMeter& meter, std::string_view text) {
  constexpr std::size_t kLong = std::size_t{1} << 20;
  if (text.size() > kLong) meter.allocate(text.size(), sizeof(std::size_t));
}

}  // namespace sluice
