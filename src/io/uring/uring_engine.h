// SPDX-License-Identifier: Apache-2.0
// io_uring. One thread owns the ring: it alone submits, reaps and registers, so requests never die with the thread
// that asked for them (the kernel cancels those of a thread that exits) and the ring needs no lock.
//
//   callers --> inbox (mutex) --> waiting_ --> ring (at most kDepth in flight) --> advance() --> ticket
//                  | eventfd wakes the owner            ^______ again: the rest ______|
//
// Destruction lets everything submitted end first.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <liburing.h>

#include "io/io_engine.h"
#include "io/posix/posix_file.h"

namespace sluice {

class UringEngine : public IoEngine {
 public:
  // Throws IoError with the kernel's reason where io_uring is refused.
  UringEngine();
  ~UringEngine() override;

  std::string_view name() const override { return "io_uring"; }
  Registration register_memory(std::span<std::byte> memory) override;
  Registration register_file(File& file) override;

 protected:
  void start(std::vector<Transfer> transfers) override;

 private:
  static constexpr unsigned kDepth = 64;  // requests in flight
  static constexpr unsigned kRegisteredFiles = 64;
  static constexpr unsigned kRegisteredRegions = 64;

  struct Region {
    std::byte* begin = nullptr;
    std::size_t size_bytes = 0;
  };

  void open_ring();
  void own_ring();  // the owner thread
  void take_inbox();
  void issue(unsigned slot_idx);
  void issue_waiting();
  void reap();
  void settle(unsigned slot_idx, int result);
  void arm_wake();
  void submit_and_wait();
  void wake();
  void call_on_owner(const std::function<void()>& call);  // blocks until it has run
  std::optional<unsigned> find_region(std::span<const std::byte> memory) const;
  io_uring_sqe* next_sqe();

  // Shared with callers.
  std::mutex inbox_mutex_;
  std::vector<Transfer> inbox_;
  std::vector<std::function<void()>> calls_;
  bool closing_ = false;
  UniqueFd wake_fd_;

  // The owner thread's alone.
  io_uring ring_{};
  std::uint64_t wake_count_ = 0;
  std::deque<Transfer> waiting_;
  std::vector<Transfer> slots_;
  std::vector<unsigned> free_slots_;
  std::vector<int> file_slots_;  // fd, or -1
  std::vector<Region> regions_;
  bool stop_ = false;

  std::thread owner_;
};

}  // namespace sluice
