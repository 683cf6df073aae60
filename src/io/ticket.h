// SPDX-License-Identifier: Apache-2.0
// The receipt for submitted transfers. It settles when every one of them has ended; the first failure is rethrown at
// wait(). A Ticket dropped early waits in its destructor, so memory that the kernel may still write never dies first.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace sluice {

// Shared by the Ticket (waits) and by the engine's transfers (finish); thread-safe.
class TicketState {
 public:
  explicit TicketState(std::size_t num_transfers) : remaining_(num_transfers) {}

  void finish_one(std::exception_ptr failure);
  // `told` runs in the thread that ends the last transfer, before whoever waits goes on; here and now where all have
  // ended. It is short, throws nothing and leaves the ticket alone. One is told.
  void when_settled(std::function<void()> told);
  void request_cancel() { cancelled_.store(true); }
  bool cancel_requested() const { return cancelled_.load(); }

  void wait_settled();
  bool settled();
  std::exception_ptr failure();  // of a settled ticket

 private:
  std::mutex mutex_;
  std::condition_variable settled_;
  std::size_t remaining_;
  std::exception_ptr failure_;
  std::function<void()> told_;
  std::atomic<bool> cancelled_{false};
};

class [[nodiscard]] Ticket {
 public:
  Ticket() = default;  // settled, nothing to wait for
  explicit Ticket(std::shared_ptr<TicketState> state) : state_(std::move(state)) {}
  ~Ticket() { settle(); }
  Ticket(Ticket&&) = default;
  Ticket& operator=(Ticket&& other) noexcept;
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  // Blocks until every transfer has ended; rethrows the first failure, once.
  void wait();
  // Whether wait() would return at once.
  bool done() const;
  // Transfers not yet started end as Cancelled, the rest run out. The ticket still has to settle.
  void cancel();
  // For whoever must know later how it ended, beside the holder of the ticket; null when there is nothing to wait for.
  const std::shared_ptr<TicketState>& state() const { return state_; }

 private:
  void settle();

  std::shared_ptr<TicketState> state_;  // shared with the engine's transfers
};

}  // namespace sluice
