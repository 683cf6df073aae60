// SPDX-License-Identifier: Apache-2.0
// Memory and CPU limits of this process's control groups, v1 and v2: those of its own group and of every group above
// it, up to the hierarchy's mount point. Docker, Kubernetes and systemd set them. Thread-safe. `root`, for tests, is
// prepended to every path; a file that cannot be read sets no limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct CgroupMemory {
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;  // without reclaimable page cache
  std::string source;            // "cgroup memory.max of /user.slice"
};
// Ordered from the process's own group upwards.
std::vector<CgroupMemory> cgroup_memory_limits(const std::string& root = "");

struct CgroupCpu {
  double num_cores = 0;  // quota divided by period
  std::string source;    // "cgroup cpu.max of /docker/1f3a"
};
std::vector<CgroupCpu> cgroup_cpu_quotas(const std::string& root = "");

}  // namespace sluice
