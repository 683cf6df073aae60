// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

class ProcFile {
 public:
  explicit ProcFile(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / "sluice-proc-XXXXXX").string();
    ::close(::mkstemp(path_.data()));
    std::ofstream(path_) << text;
  }
  ~ProcFile() { std::filesystem::remove(path_); }
  ProcFile(const ProcFile&) = delete;
  ProcFile& operator=(const ProcFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(CpuInfo, NamesTheModelAndTheFeaturesThatMatterInOrder) {
  const ProcFile file(
      "processor\t: 0\nmodel name\t: Fast CPU @ 3.0GHz: special\n"
      "flags\t\t: fpu amx_bf16 amx_tile avx avx512_bf16 avx512f avx2 sse4_2 fma\n\n"
      "processor\t: 1\nmodel name\t: another\nflags\t\t: fpu\n");
  const CpuInfo info = read_cpu_info(file.path());
  EXPECT_EQ(info.model, "Fast CPU @ 3.0GHz: special");
  const std::vector<std::string> expected{"sse4_2", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"};
  EXPECT_EQ(info.features, expected);
}

TEST(CpuInfo, ListsOnlyWholeNamesAndOnlyThosePresent) {
  const ProcFile file("flags : avx512f_x xfma avx2\n");
  const CpuInfo info = read_cpu_info(file.path());
  EXPECT_EQ(info.model, "unknown");
  EXPECT_EQ(info.features, std::vector<std::string>{"avx2"});
}

TEST(CpuInfo, CountsTheProcessorsThisProcessMayUse) {
  const CpuInfo info = read_cpu_info();
  EXPECT_GE(info.num_cores, 1);
  EXPECT_LE(info.num_cores, ::sysconf(_SC_NPROCESSORS_CONF));
}

// A fake root directory with a /proc/meminfo.
class ProcRoot {
 public:
  explicit ProcRoot(const std::string& meminfo) {
    path_ = (std::filesystem::temp_directory_path() / "sluice-root-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
    std::filesystem::create_directories(path_ + "/proc");
    std::ofstream(path_ + "/proc/meminfo") << meminfo;
  }
  ~ProcRoot() { std::filesystem::remove_all(path_); }
  ProcRoot(const ProcRoot&) = delete;
  ProcRoot& operator=(const ProcRoot&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(MemoryInfo, CountsInUnitsOf1024Bytes) {
  const ProcRoot root("MemTotal:       24684100 kB\nMemFree:  1 kB\nMemAvailable:   24357836 kB\n");
  const MemoryInfo info = read_memory_info(root.path());
  EXPECT_EQ(info.total_bytes, 25276518400U);
  EXPECT_EQ(info.available_bytes, 24942424064U);
}

TEST(MemoryInfo, MissingLinesAndFilesAreErrorsThatNameThem) {
  const ProcRoot root("MemTotal: 1 kB\nMemAvailable: much\n");
  EXPECT_THROW(read_memory_info(root.path()), FormatError);
  try {
    read_memory_info(root.path() + "/none");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find(root.path() + "/none/proc/meminfo"), std::string::npos);
  }
}

TEST(PeakRss, RemembersMemoryThatWasGivenBack) {
  constexpr std::size_t kBlockBytes = 64 * kMiB;
  const std::uint64_t before = peak_rss_bytes();
  { const std::vector<char> block(kBlockBytes, 1); }
  EXPECT_GE(peak_rss_bytes(), std::max<std::uint64_t>(before, kBlockBytes));
}

TEST(PeakRss, IsTheHighWaterMark) {
  const ProcFile file("VmPeak:\t 900 kB\nVmHWM:\t  512 kB\nVmRSS:\t  100 kB\n");
  EXPECT_EQ(peak_rss_bytes(file.path()), 512 * kKiB);
}

}  // namespace
}  // namespace sluice
