// SPDX-License-Identifier: Apache-2.0
// Moves bytes between files and memory, many at a time. Implementations: uring/ (io_uring), threads/ (where io_uring
// is refused or a file system lacks O_DIRECT), fake/ (memory and faults). Thread-safe.
// It retries what the kernel may ask to be retried (short, interrupted, EAGAIN) and nothing else: a failed transfer
// ends its ticket with the failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/ticket.h"
#include "io/transfer.h"

namespace sluice {

// Undoes a registration when it dies. Must outlive the transfers that use what it registered, not the engine.
class [[nodiscard]] Registration {
 public:
  Registration() = default;
  explicit Registration(std::function<void()> undo) : undo_(std::move(undo)) {}
  ~Registration() { reset(); }
  Registration(Registration&& other) noexcept : undo_(std::exchange(other.undo_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept;
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  void reset();
  std::function<void()> undo_;
};

class IoEngine {
 public:
  virtual ~IoEngine() = default;

  virtual std::string_view name() const = 0;

  // Starts every request; returns at once. Memory and files stay valid until the ticket settles. Requests within a
  // call and across calls are unordered: to order them, wait.
  Ticket submit(std::span<const IoRequest> requests);
  Ticket submit(const IoRequest& request) { return submit(std::span(&request, 1)); }

  // Tells the kernel ahead of time about memory or a file that many transfers will use; saves work on each of them.
  virtual Registration register_memory(std::span<std::byte> memory);
  virtual Registration register_file(File& file);

 protected:
  // Takes each transfer to its end and finishes it. May block only as long as handing over takes.
  virtual void start(std::vector<Transfer> transfers) = 0;
};

}  // namespace sluice
