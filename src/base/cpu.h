// SPDX-License-Identifier: Apache-2.0
// The processor and the memory that this process may use, from /proc and its control groups. Thread-safe. Paths and
// `root`, which is prepended to every path, are parameters for tests; the readers throw IoError if a file of /proc
// cannot be read, FormatError if a field is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct CpuInfo {
  std::string model;  // "unknown" where the kernel gives none
  int num_cores = 0;  // logical, as UsableCores
  // Those present of sse4_2 avx2 fma avx512f avx512_bf16 amx_tile amx_bf16, in this order.
  std::vector<std::string> features;
};

// Number of cores this process may keep busy: those of its affinity mask, or fewer if a control group has a CPU quota.
struct UsableCores {
  int count = 1;
  std::string limit;  // the quota that sets `count`; empty: the affinity mask does
};

struct MemoryInfo {
  std::uint64_t physical_bytes = 0;   // physical memory of the machine
  std::uint64_t total_bytes = 0;      // usable by this process: the lowest of all limits
  std::uint64_t available_bytes = 0;  // allocatable now without swapping, within every limit
  std::string total_limit;            // what sets total_bytes: "ulimit -v"; empty: the machine's memory
  std::string available_limit;        // what sets available_bytes; empty: free memory of the machine
};

CpuInfo read_cpu_info(const std::string& cpuinfo_path = "/proc/cpuinfo");
UsableCores read_usable_cores(const std::string& root = "");
std::size_t num_usable_cores();  // the default number of threads; at least 1
MemoryInfo read_memory_info(const std::string& root = "");

// The most physical memory this process has had at once.
std::uint64_t peak_rss_bytes(const std::string& status_path = "/proc/self/status");

}  // namespace sluice
