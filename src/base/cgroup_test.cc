// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

// A fake root directory with the files of a kernel's /proc and /sys.
class FakeRoot {
 public:
  FakeRoot() {
    path_ = (std::filesystem::temp_directory_path() / "sluice-root-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
    write("/proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n");
    write("/proc/self/status", "VmSize:\t 1048576 kB\nVmData:\t 524288 kB\n");
    write("/proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max data size             unlimited            unlimited            bytes     \n"
          "Max address space         unlimited            unlimited            bytes     \n");
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + file).parent_path());
    std::ofstream(path_ + file) << text;
  }
  const std::string& path() const { return path_; }

  void mount_v2(const std::string& mounted, const std::string& group) const {
    write("/proc/self/mountinfo",
          "22 1 0:20 / /proc rw - proc proc rw\n"
          "31 23 0:28 " +
              mounted + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    write("/proc/self/cgroup", "0::" + group + "\n");
  }
  void mount_v1(const std::string& mounted, const std::string& group) const {
    write("/proc/self/mountinfo", "32 31 0:29 " + mounted +
                                      " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                                      "35 31 0:32 " +
                                      mounted + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    write("/proc/self/cgroup", "5:cpu,cpuacct:" + group + "\n4:memory:" + group + "\n0::/\n");
  }

 private:
  std::string path_;
};

TEST(Cgroup, WithoutOneTheMachinesMemoryCounts) {
  const FakeRoot root;
  const MemoryInfo info = read_memory_info(root.path());
  EXPECT_EQ(info.physical_bytes, 16 * kGiB);
  EXPECT_EQ(info.total_bytes, 16 * kGiB);
  EXPECT_EQ(info.available_bytes, 8 * kGiB);
  EXPECT_EQ(info.total_limit, "");
  EXPECT_EQ(info.available_limit, "");
}

TEST(Cgroup, TheLeastOfAllGroupsAboveCountsWithoutThePageCacheThatIsTakenBack) {
  const FakeRoot root;
  root.mount_v2("/", "/app.slice/run.scope");
  root.write("/sys/fs/cgroup/app.slice/run.scope/memory.max", "max\n");
  root.write("/sys/fs/cgroup/app.slice/run.scope/memory.high", "1073741824\n");
  root.write("/sys/fs/cgroup/app.slice/run.scope/memory.current", "104857600\n");
  root.write("/sys/fs/cgroup/app.slice/run.scope/memory.stat",
             "anon 4096\ninactive_file 41943040\nactive_file 20971520\n");
  root.write("/sys/fs/cgroup/app.slice/memory.max", "2147483648\n");
  root.write("/sys/fs/cgroup/app.slice/memory.current", "2042626048\n");
  root.write("/sys/fs/cgroup/app.slice/memory.stat", "inactive_file 0\n");
  const MemoryInfo info = read_memory_info(root.path());
  EXPECT_EQ(info.total_bytes, kGiB);
  EXPECT_EQ(info.total_limit, "cgroup memory.high of /app.slice/run.scope");
  EXPECT_EQ(info.available_bytes, 100 * kMiB);  // the slice is nearly full
  EXPECT_EQ(info.available_limit, "cgroup memory.max of /app.slice");
  EXPECT_EQ(cgroup_memory_limits(root.path()).front().used_bytes, 50 * kMiB);
}

TEST(Cgroup, V1IsReadWhereItIsMountedAndItsLargestNumberIsNoLimit) {
  const FakeRoot root;
  root.mount_v1("/", "/lxc/one");
  root.write("/sys/fs/cgroup/memory/lxc/one/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("/sys/fs/cgroup/memory/lxc/memory.limit_in_bytes", "419430400\n");
  root.write("/sys/fs/cgroup/memory/lxc/memory.usage_in_bytes", "20971520\n");
  root.write("/sys/fs/cgroup/memory/lxc/memory.stat", "inactive_file 1\ntotal_inactive_file 10485760\n");
  const MemoryInfo info = read_memory_info(root.path());
  EXPECT_EQ(info.total_bytes, 400 * kMiB);
  EXPECT_EQ(info.available_bytes, 390 * kMiB);
  EXPECT_EQ(info.total_limit, "cgroup memory.limit_in_bytes of /lxc");
}

// Docker without a cgroup namespace: the mount shows the container's group, but /proc/self/cgroup has the host's path.
TEST(Cgroup, TheMountOfAContainerIsItsOwnGroup) {
  const FakeRoot root;
  root.mount_v1("/docker/1f3a", "/docker/1f3a");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(read_memory_info(root.path()).total_bytes, kGiB);
  root.mount_v1("/docker/1f3a", "/docker/1f3a/inner");
  root.write("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "536870912\n");
  EXPECT_EQ(read_memory_info(root.path()).total_bytes, kGiB / 2);
  for (const char* const outside : {"/docker/1f3abc", "/../../other"}) {
    root.mount_v1("/docker/1f3a", outside);
    EXPECT_EQ(read_memory_info(root.path()).total_bytes, kGiB) << outside;
  }
}

TEST(Cgroup, UlimitCountsAddressesThatAreTaken) {
  const FakeRoot root;
  root.write("/proc/self/limits", "Max address space         4294967296           unlimited            bytes     \n");
  const MemoryInfo info = read_memory_info(root.path());
  EXPECT_EQ(info.total_bytes, 4 * kGiB);
  EXPECT_EQ(info.available_bytes, 3 * kGiB);
  EXPECT_EQ(info.total_limit, "ulimit -v");
}

TEST(Cgroup, QuotasOfCoresAreRoundedUpAndOneIsLeft) {
  const FakeRoot root;
  EXPECT_TRUE(cgroup_cpu_quotas(root.path()).empty());
  EXPECT_EQ(read_usable_cores(root.path()).limit, "");
  root.mount_v2("/", "/pod/one");
  root.write("/sys/fs/cgroup/pod/one/cpu.max", "max 100000\n");
  root.write("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  ASSERT_EQ(cgroup_cpu_quotas(root.path()).size(), 1U);
  EXPECT_EQ(cgroup_cpu_quotas(root.path())[0].num_cores, 1.5);
  EXPECT_EQ(cgroup_cpu_quotas(root.path())[0].source, "cgroup cpu.max of /pod");
  EXPECT_LE(read_usable_cores(root.path()).count, 2);
  root.write("/sys/fs/cgroup/pod/one/cpu.max", "5000 100000\n");
  EXPECT_EQ(read_usable_cores(root.path()).count, 1);

  root.mount_v1("/", "/");
  root.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(cgroup_cpu_quotas(root.path()).empty());
  root.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
  ASSERT_EQ(cgroup_cpu_quotas(root.path()).size(), 1U);
  EXPECT_EQ(cgroup_cpu_quotas(root.path())[0].num_cores, 0.5);
  EXPECT_EQ(read_usable_cores(root.path()).count, 1);
}

TEST(Cgroup, WhatMakesNoSenseSetsNoLimit) {
  const FakeRoot root;
  root.write("/proc/self/cgroup", "0\n:\n4:memory\n::::\n0::/a/../../b\n4:memory:/x\n");
  root.write("/proc/self/mountinfo", "- -\n1 2 3 - cgroup2\n31 23 0:28 / /sys\\040fs rw - cgroup2 cgroup2 rw\n");
  root.write("/sys fs/memory.max", "many\n");
  root.write("/sys fs/cpu.max", "12\n");
  EXPECT_TRUE(cgroup_memory_limits(root.path()).empty());
  EXPECT_TRUE(cgroup_cpu_quotas(root.path()).empty());
  root.write("/sys fs/memory.max", "4096\n");
  EXPECT_EQ(cgroup_memory_limits(root.path()).size(), 1U);
}

}  // namespace
}  // namespace sluice
