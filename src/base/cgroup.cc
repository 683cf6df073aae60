// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

// v1 reports "no limit" as the largest multiple of the page size.
constexpr std::uint64_t kNoLimitBytes = std::uint64_t{1} << 60;
constexpr std::size_t kMostLevels = 64;

enum class Version : std::uint8_t { kV1, kV2 };

// The control group of this process in one hierarchy, and the hierarchy's mount point.
struct Hierarchy {
  Version version = Version::kV2;
  std::string mount;  // "/sys/fs/cgroup"
  std::string group;  // below the mount: "/user.slice/run-1.scope", or "" for the mount itself
};

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<std::string> words_of(const std::string& line, char separator) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, separator);) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  const std::optional<std::string> text = read_text(path);
  return text ? number_of(*text) : std::nullopt;
}

// The value of a line "key value".
std::uint64_t read_field(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string name, value; file >> name >> value;) {
    if (name == key) return number_of(value).value_or(0);
  }
  return 0;
}

// Decodes the octal escapes that the kernel writes in paths: a blank is \040.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto is_octal = [&](std::size_t idx) { return idx < text.size() && text[idx] >= '0' && text[idx] <= '7'; };
    if (text[at] == '\\' && is_octal(at + 1) && is_octal(at + 2) && is_octal(at + 3)) {
      plain += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 + (text[at + 3] - '0'));
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

bool lists(const std::string& words, std::string_view word) {
  const std::vector<std::string> all = words_of(words, ',');
  return std::find(all.begin(), all.end(), word) != all.end();
}

// The path of this process's group, as /proc/self/cgroup has it: "4:memory:/docker/1f3a", "0::/user.slice".
std::optional<std::string> group_path(const std::string& root, Version version, std::string_view controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_it =
        version == Version::kV2 ? line.substr(0, first) == "0" && controllers.empty() : lists(controllers, controller);
    if (is_it) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The group's path relative to a mount whose root is `mounted`. A group outside that root belongs to a container whose
// mount shows its own group, so the path is empty.
std::string below(const std::string& group, const std::string& mounted) {
  std::string path = group;
  if (mounted != "/") {
    const bool is_inside =
        group.starts_with(mounted) && (group.size() == mounted.size() || group[mounted.size()] == '/');
    path = is_inside ? group.substr(mounted.size()) : "";
  }
  if (path.find("/..") != std::string::npos) path.clear();
  while (path.ends_with('/')) path.pop_back();
  return path;
}

// The hierarchies of a controller that this process is in and that are mounted.
std::vector<Hierarchy> hierarchies(const std::string& root, std::string_view controller) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    // 35 31 0:32 ROOT MOUNT_POINT options [optional fields] - TYPE source super_options
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = words_of(line.substr(0, dash), ' ');
    const std::vector<std::string> after = words_of(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    if (after[0] != "cgroup2" && (after[0] != "cgroup" || !lists(after[2], controller))) continue;
    const Version version = after[0] == "cgroup2" ? Version::kV2 : Version::kV1;
    const std::optional<std::string> group = group_path(root, version, controller);
    if (!group) continue;
    found.push_back({version, without_escapes(before[4]), below(*group, without_escapes(before[3]))});
  }
  return found;
}

// Visits the directories from a group up to the mount: `where` is a directory, `name` the group's path for messages.
void walk_up(const std::string& root, const Hierarchy& hierarchy,
             const std::function<void(const std::string& where, const std::string& name)>& visit) {
  std::string group = hierarchy.group;
  for (std::size_t level = 0; level < kMostLevels; ++level) {
    visit(fmt::format("{}{}{}", root, hierarchy.mount, group), group.empty() ? "/" : group);
    if (group.empty()) return;
    group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

void add_memory(std::vector<CgroupMemory>& limits, const Hierarchy& hierarchy, const std::string& where,
                const std::string& name) {
  const bool is_v2 = hierarchy.version == Version::kV2;
  const std::uint64_t held = read_number(where + (is_v2 ? "/memory.current" : "/memory.usage_in_bytes")).value_or(0);
  // The kernel reclaims page cache before it kills, inactive pages first. Half of the active file pages, which include
  // programs and files in use, count as reclaimable.
  const std::string stat = where + "/memory.stat";
  const std::uint64_t reclaimable = read_field(stat, is_v2 ? "inactive_file" : "total_inactive_file") +
                                    read_field(stat, is_v2 ? "active_file" : "total_active_file") / 2;
  const auto add = [&](const char* file) {
    const std::optional<std::uint64_t> limit = read_number(where + "/" + file);  // nullopt: "max", no limit
    if (!limit || *limit >= kNoLimitBytes) return;
    limits.push_back({.limit_bytes = *limit,
                      .used_bytes = held - std::min(held, reclaimable),
                      .source = fmt::format("cgroup {} of {}", file, name)});
  };
  if (!is_v2) return add("memory.limit_in_bytes");
  add("memory.max");
  add("memory.high");
}

void add_cpu(std::vector<CgroupCpu>& quotas, const Hierarchy& hierarchy, const std::string& where,
             const std::string& name) {
  std::optional<std::uint64_t> quota;
  std::optional<std::uint64_t> period;
  const bool is_v2 = hierarchy.version == Version::kV2;
  if (is_v2) {
    const std::vector<std::string> words = words_of(read_text(where + "/cpu.max").value_or(""), ' ');
    if (words.size() == 2) {
      quota = number_of(words[0]);  // nullopt: "max", no limit
      period = number_of(words[1]);
    }
  } else {
    quota = read_number(where + "/cpu.cfs_quota_us");  // nullopt: -1, no limit
    period = read_number(where + "/cpu.cfs_period_us");
  }
  if (!quota || !period || *quota == 0 || *period == 0) return;
  quotas.push_back({.num_cores = static_cast<double>(*quota) / static_cast<double>(*period),
                    .source = fmt::format("cgroup {} of {}", is_v2 ? "cpu.max" : "cpu.cfs_quota_us", name)});
}

}  // namespace

std::vector<CgroupMemory> cgroup_memory_limits(const std::string& root) {
  std::vector<CgroupMemory> limits;
  for (const Hierarchy& hierarchy : hierarchies(root, "memory")) {
    walk_up(root, hierarchy,
            [&](const std::string& where, const std::string& name) { add_memory(limits, hierarchy, where, name); });
  }
  return limits;
}

std::vector<CgroupCpu> cgroup_cpu_quotas(const std::string& root) {
  std::vector<CgroupCpu> quotas;
  for (const Hierarchy& hierarchy : hierarchies(root, "cpu")) {
    walk_up(root, hierarchy,
            [&](const std::string& where, const std::string& name) { add_cpu(quotas, hierarchy, where, name); });
  }
  return quotas;
}

}  // namespace sluice
