// SPDX-License-Identifier: Apache-2.0
// The drives under a directory, and the file system on them, as the kernel shows them in sysfs and mountinfo. Looks
// through partitions, LVM, encryption and md to the devices at the bottom. Functions of what they are given;
// thread-safe. A btrfs over several drives is known only by the one that it was mounted from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct BlockDevice {
  std::string name;   // nvme0n1, sda, vda
  std::string model;  // empty where the kernel knows none, as for virtio
  std::uint64_t size_bytes = 0;
  bool rotational = false;
  std::optional<std::string> nvme_node;  // /dev/nvme0n1
};

struct KernelPaths {
  std::string sysfs = "/sys";
  std::string mountinfo = "/proc/self/mountinfo";
};

// Empty where no drive can be named: memory, network and overlay file systems. InvalidInput if there is no such
// directory.
std::vector<BlockDevice> block_devices(const std::string& directory, const KernelPaths& paths = {});

// "ext4", "xfs", "tmpfs", or "unknown"; InvalidInput if there is no such directory.
std::string file_system_name(const std::string& directory, const KernelPaths& paths = {});

}  // namespace sluice
