// SPDX-License-Identifier: Apache-2.0
// The processor and the memory that this process has, as /proc tells. Thread-safe. The paths are parameters for tests;
// all throw IoError where the file cannot be read, FormatError where it lacks what is asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct CpuInfo {
  std::string model;  // "unknown" where the kernel gives none
  int num_cores = 0;  // logical, those that this process may run on
  // Those present of sse4_2 avx2 fma avx512f avx512_bf16 amx_tile amx_bf16, in this order.
  std::vector<std::string> features;
};

struct MemoryInfo {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;  // what can be had without swapping
};

CpuInfo read_cpu_info(const std::string& cpuinfo_path = "/proc/cpuinfo");
MemoryInfo read_memory_info(const std::string& meminfo_path = "/proc/meminfo");

// The most physical memory this process has had at once.
std::uint64_t peak_rss_bytes(const std::string& status_path = "/proc/self/status");

}  // namespace sluice
