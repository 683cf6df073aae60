// SPDX-License-Identifier: Apache-2.0
#include "io/threads/threads_engine.h"

#include <unistd.h>

#include <cerrno>
#include <memory>
#include <thread>
#include <utility>

#include "io/posix/posix_file.h"

namespace sluice {
namespace {

std::int64_t call_kernel(const IoRequest& request) {
  const int fd = posix_fd(*request.file);
  const auto offset = static_cast<off_t>(request.offset);
  ssize_t result = 0;
  switch (request.op) {
    case IoOp::kRead:
      result = ::pread(fd, request.memory.data(), request.memory.size(), offset);
      break;
    case IoOp::kWrite:
      result = ::pwrite(fd, request.memory.data(), request.memory.size(), offset);
      break;
    case IoOp::kSync:
      result = ::fdatasync(fd);
      break;
  }
  return result < 0 ? -errno : result;
}

void carry_out(Transfer transfer) {
  if (transfer.ticket->cancel_requested()) return finish_cancelled(transfer);
  while (advance(transfer, call_kernel(transfer.request)) == TransferStep::kAgain) {
    if (transfer.idle_tries > 1) std::this_thread::yield();
  }
}

}  // namespace

ThreadsEngine::ThreadsEngine(std::size_t num_threads) : pool_(num_threads, "sluice-io") {}

void ThreadsEngine::start(std::vector<Transfer> transfers) {
  for (Transfer& transfer : transfers) {
    pool_.run([moved = std::move(transfer)]() mutable { carry_out(std::move(moved)); });
  }
}

}  // namespace sluice
