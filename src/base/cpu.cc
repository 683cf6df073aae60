// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include <fmt/core.h>

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

int num_usable_cores() {
  std::array<cpu_set_t, 8> cpus{};  // 1024 processors each
  if (::sched_getaffinity(0, sizeof(cpus), cpus.data()) != 0) return 1;
  return CPU_COUNT_S(sizeof(cpus), cpus.data());
}

}  // namespace

CpuInfo read_cpu_info(const std::string& cpuinfo_path) {
  std::map<std::string, std::string> fields = read_fields(cpuinfo_path);
  CpuInfo info;
  info.model = fields["model name"].empty() ? "unknown" : fields["model name"];
  info.num_cores = num_usable_cores();
  std::istringstream words(fields["flags"]);
  std::vector<std::string> flags;
  for (std::string flag; words >> flag;) flags.push_back(flag);
  for (const std::string_view feature : kFeatures) {
    if (std::find(flags.begin(), flags.end(), feature) != flags.end()) info.features.emplace_back(feature);
  }
  return info;
}

MemoryInfo read_memory_info(const std::string& meminfo_path) {
  const std::map<std::string, std::string> fields = read_fields(meminfo_path);
  return {.total_bytes = bytes_field(fields, "MemTotal", meminfo_path),
          .available_bytes = bytes_field(fields, "MemAvailable", meminfo_path)};
}

std::uint64_t peak_rss_bytes(const std::string& status_path) {
  return bytes_field(read_fields(status_path), "VmHWM", status_path);
}

}  // namespace sluice
