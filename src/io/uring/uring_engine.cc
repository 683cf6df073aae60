// SPDX-License-Identifier: Apache-2.0
#include "io/uring/uring_engine.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::uint64_t kWakeTag = ~0ULL;
constexpr std::uint64_t kMaxRegionBytes = kGiB;  // the kernel's limit for one registered buffer

}  // namespace

UringEngine::UringEngine() : slots_(kDepth), file_slots_(kRegisteredFiles, -1), regions_(kRegisteredRegions) {
  for (unsigned i = 0; i < kDepth; ++i) free_slots_.push_back(kDepth - 1 - i);
  std::promise<void> opened;
  std::future<void> ready = opened.get_future();
  owner_ = std::thread([this, &opened] {
    name_this_thread("sluice-uring");
    try {
      open_ring();
    } catch (const Error&) {
      opened.set_exception(std::current_exception());
      return;
    }
    opened.set_value();
    own_ring();
    io_uring_queue_exit(&ring_);
  });
  try {
    ready.get();
  } catch (const Error&) {
    owner_.join();
    throw;
  }
}

UringEngine::~UringEngine() {
  {
    const std::scoped_lock lock(inbox_mutex_);
    closing_ = true;
  }
  wake();
  owner_.join();
}

void UringEngine::open_ring() {
  wake_fd_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!wake_fd_.valid()) throw IoError(errno, fmt::format("cannot make an eventfd: {}", errno_text(errno)));
  // One more than the depth for the wake-up read. The flags save interrupts where the kernel (6.1) has them.
  int status = io_uring_queue_init(kDepth * 2, &ring_, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
  if (status == -EINVAL) status = io_uring_queue_init(kDepth * 2, &ring_, 0);
  if (status < 0) {
    throw IoError(-status, fmt::format("the kernel refuses io_uring: {}", errno_text(-status)));
  }
  if (io_uring_register_files_sparse(&ring_, kRegisteredFiles) < 0) {
    log_debug("the kernel registers no files with io_uring; transfers cost a little more");
    file_slots_.clear();
  }
  if (io_uring_register_buffers_sparse(&ring_, kRegisteredRegions) < 0) {
    log_debug("the kernel registers no memory with io_uring; transfers cost a little more");
    regions_.clear();
  }
}

void UringEngine::own_ring() {
  arm_wake();
  while (true) {
    take_inbox();
    issue_waiting();
    const bool idle = waiting_.empty() && free_slots_.size() == kDepth;
    if (stop_ && idle) return;
    submit_and_wait();
    reap();
  }
}

void UringEngine::take_inbox() {
  std::vector<Transfer> arrived;
  std::vector<std::function<void()>> calls;
  {
    const std::scoped_lock lock(inbox_mutex_);
    arrived.swap(inbox_);
    calls.swap(calls_);
    stop_ = closing_;
  }
  for (const auto& call : calls) call();
  for (Transfer& transfer : arrived) waiting_.push_back(std::move(transfer));
}

void UringEngine::issue_waiting() {
  while (!waiting_.empty() && !free_slots_.empty()) {
    Transfer transfer = std::move(waiting_.front());
    waiting_.pop_front();
    if (transfer.ticket->cancel_requested()) {
      finish_cancelled(transfer);
      continue;
    }
    const unsigned slot_idx = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot_idx] = std::move(transfer);
    issue(slot_idx);
  }
}

io_uring_sqe* UringEngine::next_sqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {
    io_uring_submit(&ring_);
    sqe = io_uring_get_sqe(&ring_);
  }
  return sqe;
}

void UringEngine::issue(unsigned slot_idx) {
  const IoRequest& request = slots_[slot_idx].request;
  int fd = posix_fd(*request.file);
  unsigned flags = 0;
  if (const auto slot = std::find(file_slots_.begin(), file_slots_.end(), fd); slot != file_slots_.end()) {
    fd = static_cast<int>(slot - file_slots_.begin());
    flags = IOSQE_FIXED_FILE;
  }
  io_uring_sqe* const sqe = next_sqe();
  void* const memory = request.memory.data();
  const auto size = static_cast<unsigned>(request.memory.size());
  const std::optional<unsigned> region = find_region(request.memory);
  switch (request.op) {
    case IoOp::kRead:
      if (region) {
        io_uring_prep_read_fixed(sqe, fd, memory, size, request.offset, static_cast<int>(*region));
      } else {
        io_uring_prep_read(sqe, fd, memory, size, request.offset);
      }
      break;
    case IoOp::kWrite:
      if (region) {
        io_uring_prep_write_fixed(sqe, fd, memory, size, request.offset, static_cast<int>(*region));
      } else {
        io_uring_prep_write(sqe, fd, memory, size, request.offset);
      }
      break;
    case IoOp::kSync:
      io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
      break;
  }
  sqe->flags = static_cast<std::uint8_t>(sqe->flags | flags);
  io_uring_sqe_set_data64(sqe, slot_idx);
}

void UringEngine::submit_and_wait() {
  // EINTR, EAGAIN and EBUSY leave what was not taken in the ring: the next round submits it again.
  const int status = io_uring_submit_and_wait(&ring_, 1);
  CHECK(status >= 0 || status == -EINTR || status == -EAGAIN || status == -EBUSY, errno_text(-status));
}

void UringEngine::reap() {
  io_uring_cqe* cqe = nullptr;
  unsigned head = 0;
  unsigned count = 0;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    ++count;
    if (cqe->user_data == kWakeTag) {
      arm_wake();
    } else {
      settle(static_cast<unsigned>(cqe->user_data), cqe->res);
    }
  }
  io_uring_cq_advance(&ring_, count);
}

void UringEngine::settle(unsigned slot_idx, int result) {
  if (advance(slots_[slot_idx], result) == TransferStep::kAgain) {
    if (slots_[slot_idx].idle_tries > 1) std::this_thread::yield();
    issue(slot_idx);
    return;
  }
  slots_[slot_idx] = {};
  free_slots_.push_back(slot_idx);
}

void UringEngine::arm_wake() {
  io_uring_sqe* const sqe = next_sqe();
  io_uring_prep_read(sqe, wake_fd_.get(), &wake_count_, sizeof(wake_count_), 0);
  io_uring_sqe_set_data64(sqe, kWakeTag);
}

void UringEngine::wake() {
  const std::uint64_t one = 1;
  const ssize_t written = ::write(wake_fd_.get(), &one, sizeof(one));
  CHECK(written == sizeof(one), "an eventfd takes a count");
}

void UringEngine::start(std::vector<Transfer> transfers) {
  bool was_empty = false;
  {
    const std::scoped_lock lock(inbox_mutex_);
    CHECK(!closing_, "nothing is submitted to an engine that is being destroyed");
    was_empty = inbox_.empty();
    std::move(transfers.begin(), transfers.end(), std::back_inserter(inbox_));
  }
  if (was_empty) wake();
}

void UringEngine::call_on_owner(const std::function<void()>& call) {
  std::promise<void> done;
  {
    const std::scoped_lock lock(inbox_mutex_);
    calls_.emplace_back([&call, &done] {
      call();
      done.set_value();
    });
  }
  wake();
  done.get_future().get();
}

std::optional<unsigned> UringEngine::find_region(std::span<const std::byte> memory) const {
  for (unsigned i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    if (region.begin == nullptr || memory.data() < region.begin) continue;
    const auto start = static_cast<std::size_t>(memory.data() - region.begin);
    if (start + memory.size() <= region.size_bytes) return i;
  }
  return std::nullopt;
}

Registration UringEngine::register_memory(std::span<std::byte> memory) {
  if (memory.size() > kMaxRegionBytes || memory.empty()) return {};
  std::optional<unsigned> taken;
  int status = 0;
  call_on_owner([&] {
    const auto slot =
        std::find_if(regions_.begin(), regions_.end(), [](const Region& region) { return region.begin == nullptr; });
    if (slot == regions_.end()) return;
    const auto region_idx = static_cast<unsigned>(slot - regions_.begin());
    const iovec vector{memory.data(), memory.size()};
    const __u64 tag = 0;
    status = io_uring_register_buffers_update_tag(&ring_, region_idx, &vector, &tag, 1);
    if (status < 0) return;
    *slot = {memory.data(), memory.size()};
    taken = region_idx;
  });
  if (status < 0) {
    log_warning(fmt::format("io_uring could not register {} of memory ({}): transfers go on without; raise `ulimit -l`",
                            format_bytes(memory.size()), errno_text(-status)));
  }
  if (!taken) {
    if (status >= 0) log_debug("io_uring's table of registered memory is full; transfers go on without");
    return {};
  }
  return Registration([this, region_idx = *taken] {
    call_on_owner([this, region_idx] {
      regions_[region_idx] = {};
      const iovec none{};
      const __u64 tag = 0;
      io_uring_register_buffers_update_tag(&ring_, region_idx, &none, &tag, 1);
    });
  });
}

Registration UringEngine::register_file(File& file) {
  const int fd = posix_fd(file);
  std::optional<unsigned> taken;
  call_on_owner([&] {
    const auto slot = std::find(file_slots_.begin(), file_slots_.end(), -1);
    if (slot == file_slots_.end()) return;
    const auto file_idx = static_cast<unsigned>(slot - file_slots_.begin());
    if (io_uring_register_files_update(&ring_, file_idx, &fd, 1) != 1) return;
    *slot = fd;
    taken = file_idx;
  });
  if (!taken) return {};
  return Registration([this, file_idx = *taken] {
    call_on_owner([this, file_idx] {
      file_slots_[file_idx] = -1;
      const int none = -1;
      io_uring_register_files_update(&ring_, file_idx, &none, 1);
    });
  });
}

}  // namespace sluice
