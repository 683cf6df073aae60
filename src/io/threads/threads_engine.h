// SPDX-License-Identifier: Apache-2.0
// The engine for where io_uring is not to be had: blocking pread and pwrite on as many threads as a drive needs
// requests in flight.
#pragma once

#include "base/thread_pool.h"
#include "io/io_engine.h"

namespace sluice {

class ThreadsEngine : public IoEngine {
 public:
  explicit ThreadsEngine(std::size_t num_threads = 16);
  std::string_view name() const override { return "threads"; }

 protected:
  void start(std::vector<Transfer> transfers) override;

 private:
  ThreadPool pool_;
};

}  // namespace sluice
