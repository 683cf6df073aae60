// SPDX-License-Identifier: Apache-2.0
#include "io/ticket.h"

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

std::exception_ptr failure(const std::string& text) { return std::make_exception_ptr(FormatError(text)); }

// Runs `act` on a thread and sees that it does not return before the only transfer of `state` has finished.
void expect_waits_for(TicketState& state, const std::function<void()>& act) {
  std::atomic<bool> begun{false};
  std::atomic<bool> returned{false};
  std::thread actor([&] {
    begun = true;
    act();
    returned = true;
  });
  while (!begun) std::this_thread::yield();
  // Chances for an actor that does not wait to show it.
  for (int i = 0; i < 10000 && !returned; ++i) std::this_thread::yield();
  EXPECT_FALSE(returned);
  state.finish_one(nullptr);
  actor.join();
}

TEST(Ticket, WaitingDroppingAndReplacingItWaitForItsTransfers) {
  for (const char* const how : {"wait", "drop", "replace"}) {
    SCOPED_TRACE(how);
    const auto state = std::make_shared<TicketState>(1);
    auto ticket = std::make_unique<Ticket>(state);
    expect_waits_for(*state, [&] {
      if (how == std::string("wait")) ticket->wait();
      if (how == std::string("drop")) ticket.reset();
      if (how == std::string("replace")) *ticket = Ticket();
    });
  }
}

TEST(Ticket, SettlesWithTheLastTransfer) {
  const auto state = std::make_shared<TicketState>(3);
  Ticket ticket(state);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(ticket.done());
    state->finish_one(nullptr);
  }
  EXPECT_TRUE(ticket.done());
  EXPECT_NO_THROW(ticket.wait());
}

TEST(Ticket, FirstFailureIsRethrownAndOnlyOnce) {
  const auto state = std::make_shared<TicketState>(4);
  Ticket ticket(state);
  state->finish_one(nullptr);
  state->finish_one(failure("first"));
  state->finish_one(failure("second"));
  state->finish_one(nullptr);
  try {
    ticket.wait();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_NO_THROW(ticket.wait());
}

TEST(Ticket, DroppingAFailedOneIsQuiet) {
  const auto state = std::make_shared<TicketState>(1);
  state->finish_one(failure("nobody asks"));
  EXPECT_NO_THROW({ const Ticket ticket(state); });
  EXPECT_NE(state->failure(), nullptr);
}

TEST(Ticket, EmptyOneIsDone) {
  Ticket ticket;
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(ticket.state(), nullptr);
  ticket.cancel();
  EXPECT_NO_THROW(ticket.wait());
}

TEST(Ticket, MovingPassesTheDutyToWaitOn) {
  const auto state = std::make_shared<TicketState>(1);
  Ticket from(state);
  Ticket to = std::move(from);
  EXPECT_FALSE(to.done());
  to.cancel();
  EXPECT_TRUE(state->cancel_requested());
  EXPECT_FALSE(to.done());  // cancelling is a wish: the transfer still has to end
  state->finish_one(nullptr);
  EXPECT_NO_THROW(to.wait());
}

}  // namespace
}  // namespace sluice
