// SPDX-License-Identifier: Apache-2.0
// One request to the kernel on its way, and the one function that decides what a completion means. Every engine asks
// it, so short, interrupted and refused transfers are handled alike and tested once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>

#include "io/file.h"
#include "io/ticket.h"

namespace sluice {

enum class IoOp : std::uint8_t { kRead, kWrite, kSync };  // kSync: fdatasync

struct IoRequest {
  File* file = nullptr;
  IoOp op = IoOp::kRead;
  std::uint64_t offset = 0;
  std::span<std::byte> memory;

  static IoRequest read(File& file, std::uint64_t offset, std::span<std::byte> into);
  static IoRequest write(File& file, std::uint64_t offset, std::span<const std::byte> from);
  static IoRequest sync(File& file);
};

struct Transfer {
  IoRequest request;  // what is left to do: offset and memory move on as parts complete
  std::shared_ptr<TicketState> ticket;
  int idle_tries = 0;  // completions in a row that brought nothing

  // Lets go of the ticket first, which its holder keeps alive until it settles: so a failure dies with whoever waited
  // for it, never in an engine's thread while somebody reads it. (libstdc++ bears that, but TSan cannot see why.)
  void finish(std::exception_ptr failure) {
    TicketState& state = *ticket;
    ticket.reset();
    state.finish_one(std::move(failure));
  }
};

enum class TransferStep { kFinished, kAgain };

// Accounts for one completion: `result` is bytes moved, or -errno. Either finishes the transfer (well or not), or
// leaves in `transfer.request` what has to be asked for again.
TransferStep advance(Transfer& transfer, std::int64_t result);

// Ends a transfer that was never started because its ticket was cancelled.
void finish_cancelled(Transfer& transfer);

}  // namespace sluice
