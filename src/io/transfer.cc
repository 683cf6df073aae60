// SPDX-License-Identifier: Apache-2.0
#include "io/transfer.h"

#include <cerrno>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/units.h"
#include "io/alignment.h"
#include "io/io_failure.h"

namespace sluice {
namespace {

// Enough for any passing shortage of kernel memory; an engine yields between tries.
constexpr int kMaxIdleTries = 10000;

std::string_view verb(IoOp op) {
  switch (op) {
    case IoOp::kRead:
      return "read";
    case IoOp::kWrite:
      return "write";
    case IoOp::kSync:
      return "sync";
  }
  return "use";
}

TransferStep fail(Transfer& transfer, int errno_value) {
  const IoRequest& request = transfer.request;
  transfer.finish(transfer_failure(
      errno_value,
      fmt::format("{} {} at offset {} of", verb(request.op), format_bytes(request.memory.size()), request.offset),
      request.file->path()));
  return TransferStep::kFinished;
}

TransferStep fail_at_end_of_file(Transfer& transfer) {
  const IoRequest& request = transfer.request;
  std::exception_ptr failure = std::make_exception_ptr(FormatError(
      fmt::format("'{}' ends before offset {}, where {} more were expected: the file is truncated; run `sluice store "
                  "check` on its directory",
                  request.file->path(), request.offset + request.memory.size(), format_bytes(request.memory.size()))));
  transfer.finish(std::move(failure));
  return TransferStep::kFinished;
}

TransferStep again(Transfer& transfer, int errno_value) {
  if (transfer.ticket->cancel_requested()) {
    finish_cancelled(transfer);
    return TransferStep::kFinished;
  }
  if (++transfer.idle_tries > kMaxIdleTries) return fail(transfer, errno_value);
  return TransferStep::kAgain;
}

}  // namespace

IoRequest IoRequest::read(File& file, std::uint64_t offset, std::span<std::byte> into) {
  return {.file = &file, .op = IoOp::kRead, .offset = offset, .memory = into};
}

IoRequest IoRequest::write(File& file, std::uint64_t offset, std::span<const std::byte> from) {
  // Only ever read from: the kernel's interface is the same for both directions.
  return {.file = &file,
          .op = IoOp::kWrite,
          .offset = offset,
          .memory = {const_cast<std::byte*>(from.data()), from.size()}};
}

IoRequest IoRequest::sync(File& file) { return {.file = &file, .op = IoOp::kSync, .offset = 0, .memory = {}}; }

TransferStep advance(Transfer& transfer, std::int64_t result) {
  IoRequest& request = transfer.request;
  if (result == -EINTR || result == -EAGAIN) return again(transfer, static_cast<int>(-result));
  if (result == -ECANCELED) {
    finish_cancelled(transfer);
    return TransferStep::kFinished;
  }
  if (result < 0) return fail(transfer, static_cast<int>(-result));
  if (request.op == IoOp::kSync || static_cast<std::uint64_t>(result) >= request.memory.size()) {
    transfer.finish(nullptr);
    return TransferStep::kFinished;
  }
  if (result == 0) {
    return request.op == IoOp::kRead ? fail_at_end_of_file(transfer) : fail(transfer, ENOSPC);
  }
  // Short. A direct transfer can only go on from an aligned place: do the last part-block again.
  auto moved = static_cast<std::uint64_t>(result);
  if (request.file->caching() == Caching::kDirect) moved = round_down(moved, kIoAlignment);
  if (moved == 0) {
    // A part-block that stays one is where the file ends.
    const bool last_try = transfer.idle_tries == kMaxIdleTries;
    return last_try && request.op == IoOp::kRead ? fail_at_end_of_file(transfer) : again(transfer, EIO);
  }
  transfer.idle_tries = 0;
  request.offset += moved;
  request.memory = request.memory.subspan(moved);
  return again(transfer, EIO);
}

void finish_cancelled(Transfer& transfer) {
  std::exception_ptr failure = std::make_exception_ptr(
      Cancelled(fmt::format("the {} of '{}' was cancelled", verb(transfer.request.op), transfer.request.file->path())));
  transfer.finish(std::move(failure));
}

}  // namespace sluice
