// SPDX-License-Identifier: Apache-2.0
#include "io/block_device.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// A sysfs and a mountinfo of our own, in which the real device number of the test's directory means what a test says.
class BlockDeviceTest : public testing::Test {
 protected:
  BlockDeviceTest() {
    std::string pattern = (fs::temp_directory_path() / "sluice-block-XXXXXX").string();
    root_ = fs::canonical(::mkdtemp(pattern.data()));
    fs::create_directories(root_ / "data");
    for (const char* folder : {"dev/block", "class/block"}) fs::create_directories(root_ / "sys" / folder);
    write("mountinfo", "");
  }
  ~BlockDeviceTest() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  // `place` below sys/devices, such as "pci0/nvme0n1/nvme0n1p2".
  void add_device(const std::string& place, std::uint64_t size_bytes) {
    const fs::path folder = fs::path("sys/devices") / place;
    write(folder / "size", fmt::format("{}\n", size_bytes / 512));
    fs::create_symlink(root_ / folder, root_ / "sys/class/block" / folder.filename());
  }
  void add_drive(const std::string& place, const std::string& model, int rotational) {
    add_device(place, kTiB);
    const fs::path folder = fs::path("sys/devices") / place;
    write(folder / "queue/rotational", fmt::format("{}\n", rotational));
    if (!model.empty()) write(folder / "device/model", model + "\n");
    fs::create_directories(root_ / folder / "slaves");
  }
  void add_partition(const std::string& place) {
    add_device(place, kGiB);
    write(fs::path("sys/devices") / place / "partition", "1\n");
  }
  void add_slave(const std::string& place, const std::string& of) {
    const fs::path slaves = root_ / "sys/devices" / of / "slaves";
    fs::create_directories(slaves);
    fs::create_symlink(root_ / "sys/devices" / place, slaves / fs::path(place).filename());
  }
  void data_lies_on(const std::string& place) {
    struct stat info {};
    ASSERT_EQ(::stat(data().c_str(), &info), 0);
    fs::create_symlink(root_ / "sys/devices" / place,
                       root_ / "sys/dev/block" / fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev)));
  }

  std::string data() const { return (root_ / "data").string(); }
  KernelPaths paths() const { return {.sysfs = (root_ / "sys").string(), .mountinfo = (root_ / "mountinfo").string()}; }
  std::vector<BlockDevice> drives() const { return block_devices(data(), paths()); }

  fs::path root_;
};

TEST_F(BlockDeviceTest, PartitionLeadsToItsDrive) {
  add_drive("pci0/nvme0n1", "  ACME Fast 2TB          ", 0);
  add_partition("pci0/nvme0n1/nvme0n1p2");
  data_lies_on("pci0/nvme0n1/nvme0n1p2");
  ASSERT_EQ(drives().size(), 1U);
  const BlockDevice drive = drives().front();
  EXPECT_EQ(drive.name, "nvme0n1");
  EXPECT_EQ(drive.model, "ACME Fast 2TB");
  EXPECT_EQ(drive.size_bytes, kTiB);
  EXPECT_FALSE(drive.rotational);
  EXPECT_EQ(drive.nvme_node, "/dev/nvme0n1");
}

TEST_F(BlockDeviceTest, LogicalVolumeLeadsToEveryDriveUnderItOnce) {
  add_drive("pci0/nvme0n1", "A", 0);
  add_partition("pci0/nvme0n1/nvme0n1p1");
  add_partition("pci0/nvme0n1/nvme0n1p2");
  add_drive("pci1/sda", "B", 1);
  add_drive("virtual/dm-0", "", 0);
  add_slave("pci0/nvme0n1/nvme0n1p1", "virtual/dm-0");
  add_slave("pci0/nvme0n1/nvme0n1p2", "virtual/dm-0");
  add_slave("pci1/sda", "virtual/dm-0");
  add_drive("virtual/dm-1", "", 0);
  add_slave("virtual/dm-0", "virtual/dm-1");
  data_lies_on("virtual/dm-1");
  ASSERT_EQ(drives().size(), 2U);
  EXPECT_EQ(drives()[0].name, "nvme0n1");
  EXPECT_EQ(drives()[1].name, "sda");
  EXPECT_TRUE(drives()[1].rotational);
  EXPECT_FALSE(drives()[1].nvme_node);
}

TEST_F(BlockDeviceTest, PartitionOfAnMdArrayLeadsToItsMembers) {
  add_drive("pci0/sda", "A", 1);
  add_drive("pci0/sdb", "A", 1);
  add_drive("virtual/md0", "", 1);
  add_slave("pci0/sda", "virtual/md0");
  add_slave("pci0/sdb", "virtual/md0");
  add_partition("virtual/md0/md0p1");
  data_lies_on("virtual/md0/md0p1");
  ASSERT_EQ(drives().size(), 2U);
  EXPECT_EQ(drives()[0].name, "sda");
  EXPECT_EQ(drives()[1].name, "sdb");
}

TEST_F(BlockDeviceTest, VirtioDiskHasNoModel) {
  add_drive("pci0/virtio1/vda", "", 1);
  data_lies_on("pci0/virtio1/vda");
  ASSERT_EQ(drives().size(), 1U);
  EXPECT_EQ(drives()[0].name, "vda");
  EXPECT_EQ(drives()[0].model, "");
  EXPECT_FALSE(drives()[0].nvme_node);
}

TEST_F(BlockDeviceTest, MemoryAndOverlaysHaveNoDrive) {
  add_drive("pci0/nvme0n1", "A", 0);
  write("mountinfo",
        fmt::format("1 0 8:1 / / rw - ext4 /dev/nvme0n1 rw\n2 1 0:40 / {} rw - overlay overlay rw\n", data()));
  EXPECT_TRUE(drives().empty());
}

TEST_F(BlockDeviceTest, AnonymousDeviceNumberFallsBackToTheMountSource) {
  add_drive("pci0/nvme1n1", "A", 0);
  add_partition("pci0/nvme1n1/nvme1n1p3");
  write("mountinfo", fmt::format("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
                                 "2 1 0:40 /@home {} rw,noatime shared:1 master:2 - btrfs /dev/nvme1n1p3 rw,ssd\n",
                                 root_.string()));
  ASSERT_EQ(drives().size(), 1U);
  EXPECT_EQ(drives()[0].name, "nvme1n1");
}

TEST_F(BlockDeviceTest, FileSystemIsThatOfTheDeepestAndLastMount) {
  fs::create_directories(root_ / "my data");
  write("mountinfo", fmt::format("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
                                 "2 1 8:2 / {0}/my\\040data rw - tmpfs tmpfs rw\n"
                                 "3 1 8:2 / {0}/my\\040data rw shared:7 - xfs /dev/sdb rw\n"
                                 "4 1 8:3 / {0}/dat rw - vfat /dev/sdc rw\n"
                                 "5 broken\n",
                                 root_.string()));
  EXPECT_EQ(file_system_name((root_ / "my data").string(), paths()), "xfs");
  EXPECT_EQ(file_system_name(data(), paths()), "ext4");
  write("mountinfo", "");
  EXPECT_EQ(file_system_name(data(), paths()), "unknown");
}

TEST_F(BlockDeviceTest, MissingDirectoryIsTheUsersMistake) {
  EXPECT_THROW(block_devices(data() + "/none", paths()), InvalidInput);
  EXPECT_THROW(file_system_name(data() + "/none", paths()), InvalidInput);
}

}  // namespace
}  // namespace sluice
