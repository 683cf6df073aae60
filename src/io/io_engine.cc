// SPDX-License-Identifier: Apache-2.0
#include "io/io_engine.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "io/alignment.h"

namespace sluice {
namespace {

// Large requests travel in pieces of this size. Drives reach their full rate from about 512 KiB a request, and smaller
// pieces spread better over a queue; 1 MiB is also what `bench io` asks of fio.
constexpr std::uint64_t kPieceBytes = kMiB;

void check_direct(const IoRequest& request) {
  if (request.op == IoOp::kSync || request.file->caching() != Caching::kDirect) return;
  const auto address = reinterpret_cast<std::uintptr_t>(request.memory.data());
  CHECK(is_aligned(request.offset, kIoAlignment) && is_aligned(request.memory.size(), kIoAlignment) &&
            is_aligned(address, kIoAlignment),
        "direct transfers are aligned");
}

}  // namespace

Registration& Registration::operator=(Registration&& other) noexcept {
  if (this != &other) {
    reset();
    undo_ = std::exchange(other.undo_, nullptr);
  }
  return *this;
}

void Registration::reset() {
  if (undo_) undo_();
  undo_ = nullptr;
}

Ticket IoEngine::submit(std::span<const IoRequest> requests) {
  std::vector<Transfer> transfers;
  for (const IoRequest& request : requests) {
    check_direct(request);
    if (request.op == IoOp::kSync) {
      transfers.push_back({.request = request, .ticket = nullptr});
      continue;
    }
    for (std::uint64_t done = 0; done < request.memory.size(); done += kPieceBytes) {
      IoRequest piece = request;
      piece.offset += done;
      piece.memory = request.memory.subspan(done, std::min<std::uint64_t>(kPieceBytes, request.memory.size() - done));
      transfers.push_back({.request = piece, .ticket = nullptr});
    }
  }
  if (transfers.empty()) return {};
  const auto state = std::make_shared<TicketState>(transfers.size());
  for (Transfer& transfer : transfers) transfer.ticket = state;
  start(std::move(transfers));
  return Ticket(state);
}

Registration IoEngine::register_memory(std::span<std::byte>) { return {}; }
Registration IoEngine::register_file(File&) { return {}; }

}  // namespace sluice
