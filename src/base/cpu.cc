// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <tuple>

#include <fmt/core.h>

#include "base/cgroup.h"
#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 7> kFeatures{"sse4_2",      "avx2",     "fma",     "avx512f",
                                                    "avx512_bf16", "amx_tile", "amx_bf16"};

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// "key : value" lines; of a repeated key, as for every further processor, the first counts.
std::map<std::string, std::string> read_fields(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    const int errno_value = errno;
    throw IoError(errno_value,
                  fmt::format("cannot read '{}': {}; see that /proc is mounted", path, errno_text(errno_value)));
  }
  std::map<std::string, std::string> fields;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos) fields.emplace(trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  }
  return fields;
}

// /proc counts memory in units of 1024 bytes and calls them kB.
std::uint64_t bytes_field(const std::map<std::string, std::string>& fields, const std::string& key,
                          const std::string& path) {
  const auto field = fields.find(key);
  std::uint64_t kib = 0;
  if (field == fields.end() ||
      std::from_chars(field->second.data(), field->second.data() + field->second.size(), kib).ec != std::errc{}) {
    throw FormatError(fmt::format("'{}' has no number for {}: see that /proc is the kernel's own", path, key));
  }
  return kib * kKiB;
}

int num_cores_of_affinity() {
  std::array<cpu_set_t, 8> cpus{};  // 1024 processors each
  if (::sched_getaffinity(0, sizeof(cpus), cpus.data()) != 0) return 1;
  return CPU_COUNT_S(sizeof(cpus), cpus.data());
}

// The soft limit in a line "Max address space  SOFT  HARD  bytes" of /proc/self/limits; nullopt: unlimited.
std::optional<std::uint64_t> read_rlimit(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const std::string rest = trimmed(line.substr(name.size()));
    std::uint64_t limit = 0;
    if (std::from_chars(rest.data(), rest.data() + rest.size(), limit).ec == std::errc{}) return limit;
  }
  return std::nullopt;
}

void lower(MemoryInfo& info, std::uint64_t limit_bytes, std::uint64_t used_bytes, const std::string& source) {
  if (limit_bytes < info.total_bytes) std::tie(info.total_bytes, info.total_limit) = std::tuple(limit_bytes, source);
  const std::uint64_t left_bytes = limit_bytes - std::min(limit_bytes, used_bytes);
  if (left_bytes < info.available_bytes) {
    std::tie(info.available_bytes, info.available_limit) = std::tuple(left_bytes, source);
  }
}

// Applies a `ulimit` on memory: `limit_name` is its line in /proc/self/limits, `used_name` the field of
// /proc/self/status that counts against it.
void lower_to_rlimit(MemoryInfo& info, const std::string& root, std::string_view limit_name,
                     const std::string& used_name, const std::string& source) {
  const std::optional<std::uint64_t> limit = read_rlimit(root + "/proc/self/limits", limit_name);
  if (!limit) return;
  const std::string path = root + "/proc/self/status";
  lower(info, *limit, bytes_field(read_fields(path), used_name, path), source);
}

}  // namespace

UsableCores read_usable_cores(const std::string& root) {
  UsableCores cores{.count = num_cores_of_affinity(), .limit = ""};
  for (const CgroupCpu& quota : cgroup_cpu_quotas(root)) {
    // A fraction of a core counts as a whole one: throttled threads cost less than an idle fraction.
    const double whole = std::max(std::ceil(quota.num_cores), 1.0);
    if (whole < cores.count) cores = {.count = static_cast<int>(whole), .limit = quota.source};
  }
  return cores;
}

std::size_t num_usable_cores() { return static_cast<std::size_t>(std::max(read_usable_cores().count, 1)); }

CpuInfo read_cpu_info(const std::string& cpuinfo_path) {
  std::map<std::string, std::string> fields = read_fields(cpuinfo_path);
  CpuInfo info;
  info.model = fields["model name"].empty() ? "unknown" : fields["model name"];
  info.num_cores = read_usable_cores().count;
  std::istringstream words(fields["flags"]);
  std::vector<std::string> flags;
  for (std::string flag; words >> flag;) flags.push_back(flag);
  for (const std::string_view feature : kFeatures) {
    if (std::find(flags.begin(), flags.end(), feature) != flags.end()) info.features.emplace_back(feature);
  }
  return info;
}

MemoryInfo read_memory_info(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  const std::map<std::string, std::string> fields = read_fields(path);
  MemoryInfo info{.physical_bytes = bytes_field(fields, "MemTotal", path),
                  .available_bytes = bytes_field(fields, "MemAvailable", path)};
  info.total_bytes = info.physical_bytes;
  for (const CgroupMemory& limit : cgroup_memory_limits(root)) {
    lower(info, limit.limit_bytes, limit.used_bytes, limit.source);
  }
  lower_to_rlimit(info, root, "Max address space", "VmSize", "ulimit -v");
  lower_to_rlimit(info, root, "Max data size", "VmData", "ulimit -d");
  return info;
}

std::uint64_t peak_rss_bytes(const std::string& status_path) {
  return bytes_field(read_fields(status_path), "VmHWM", status_path);
}

}  // namespace sluice
