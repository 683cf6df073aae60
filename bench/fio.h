// SPDX-License-Identifier: Apache-2.0
// Runs fio and reads its figures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/transfer.h"

namespace sluice {

struct FioJob {
  std::vector<std::string> paths;  // one job a file, all at once
  std::uint64_t file_bytes = 0;    // of each
  IoOp op = IoOp::kRead;
  std::string ioengine;  // "io_uring" or "psync"
  Caching caching = Caching::kDirect;
};

// Decimal gigabytes a second over all files. Throws InvalidInput where fio is not installed, IoError where it fails.
double run_fio(const FioJob& job);

}  // namespace sluice
