// SPDX-License-Identifier: Apache-2.0
// What the control groups of this process let it have: the limits of its own group and of every group above it, as far
// up as the hierarchy is mounted here, v1 and v2. Docker, Kubernetes and systemd set them. Thread-safe. `root` goes in
// front of every path, for tests; what cannot be read sets no limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct CgroupMemory {
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;  // without page cache that the kernel can take back
  std::string source;            // "cgroup memory.max of /user.slice"
};
// From the process's own group upwards.
std::vector<CgroupMemory> cgroup_memory_limits(const std::string& root = "");

struct CgroupCpu {
  double num_cores = 0;  // that may be busy all the time
  std::string source;    // "cgroup cpu.max of /docker/1f3a"
};
std::vector<CgroupCpu> cgroup_cpu_quotas(const std::string& root = "");

}  // namespace sluice
