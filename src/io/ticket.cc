// SPDX-License-Identifier: Apache-2.0
#include "io/ticket.h"

#include <utility>

#include "base/check.h"

namespace sluice {

void TicketState::finish_one(std::exception_ptr failure) {
  const std::scoped_lock lock(mutex_);
  CHECK(remaining_ > 0, "a transfer finishes once");
  if (failure && !failure_) failure_ = std::move(failure);
  if (--remaining_ > 0) return;
  if (told_) std::exchange(told_, nullptr)();
  settled_.notify_all();
}

void TicketState::when_settled(std::function<void()> told) {
  const std::scoped_lock lock(mutex_);
  if (remaining_ == 0) return told();
  told_ = std::move(told);
}

void TicketState::wait_settled() {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [this] { return remaining_ == 0; });
}

bool TicketState::settled() {
  const std::scoped_lock lock(mutex_);
  return remaining_ == 0;
}

std::exception_ptr TicketState::failure() {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    settle();
    state_ = std::move(other.state_);
  }
  return *this;
}

void Ticket::wait() {
  if (!state_) return;
  const std::shared_ptr<TicketState> state = std::exchange(state_, nullptr);
  state->wait_settled();
  if (const std::exception_ptr failure = state->failure()) std::rethrow_exception(failure);
}

bool Ticket::done() const { return !state_ || state_->settled(); }

void Ticket::cancel() {
  if (state_) state_->request_cancel();
}

void Ticket::settle() {
  if (state_) state_->wait_settled();
  state_.reset();
}

}  // namespace sluice
