// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/check.h"

namespace sluice {
namespace {

// Signal handlers reach nothing but globals, and of those only lock-free ones.
std::atomic<int> num_signals{0};  // Ctrl-C and SIGTERM
std::atomic<bool> is_hung_up{false};
std::atomic<bool> guarded{false};
static_assert(std::atomic<int>::is_always_lock_free);

constexpr int kExitCode = 130;  // as for Cancelled
constexpr std::string_view kSecond = "\nsluice: ended at once; what was committed is kept\n";

// Where nobody reads, nobody is told: ending must not hang on a full pipe.
void say(std::string_view sentence) {
  pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, sentence.data(), sentence.size());
}

// Closing a terminal sends SIGHUP, the shell sends another, and a session manager SIGTERM: only a second SIGTERM or
// Ctrl-C ends the process at once.
void handle(int signal) {
  const int errno_value = errno;
  if (signal == SIGHUP) {
    is_hung_up = true;
  } else if (num_signals.fetch_add(1) > 0) {
    say(kSecond);
    ::_exit(kExitCode);
  }
  errno = errno_value;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  CHECK(!guarded.exchange(true), "one guard at a time");
  num_signals = 0;
  is_hung_up = false;
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  // Neither handler interrupts the other.
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  sigaddset(&action.sa_mask, SIGHUP);
  ::sigaction(SIGINT, &action, &old_int_);
  ::sigaction(SIGTERM, &action, &old_term_);
  ::sigaction(SIGHUP, nullptr, &old_hangup_);
  if (old_hangup_.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
  ::sigaction(SIGHUP, &old_hangup_, nullptr);
  guarded = false;
}

bool InterruptGuard::requested() { return num_signals.load() > 0 || is_hung_up.load(); }

}  // namespace sluice
