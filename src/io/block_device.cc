// SPDX-License-Identifier: Apache-2.0
#include "io/block_device.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

#include "io/io_failure.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// The unit of sysfs `size` files, whatever the drive's own sector is.
constexpr std::uint64_t kSysfsSectorBytes = 512;

// The first line without the blanks that drives pad their names with; empty if the file cannot be read.
std::string read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::size_t first = line.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t") - first + 1);
}

std::uint64_t read_number(const fs::path& path) {
  const std::string line = read_line(path);
  std::uint64_t number = 0;
  std::from_chars(line.data(), line.data() + line.size(), number);
  return number;
}

struct Mount {
  std::string point;
  std::string type;
  std::string source;
};

// mountinfo writes blanks and backslashes as \ooo.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 4 <= text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 3, value, 8).ptr == &text[i + 1] + 3) {
      plain += static_cast<char>(value);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// "36 35 98:0 /root /point options [optional...] - type source super-options"
std::optional<Mount> parse_mount(const std::string& line) {
  constexpr std::size_t kPointIdx = 4;
  std::istringstream words(line);
  std::vector<std::string> fields;
  for (std::string word; words >> word;) fields.push_back(word);
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  if (fields.size() <= kPointIdx || fields.end() - dash < 3) return std::nullopt;
  return Mount{.point = unescape(fields[kPointIdx]), .type = unescape(dash[1]), .source = unescape(dash[2])};
}

bool is_under(const std::string& path, const std::string& point) {
  if (point == "/" || path == point) return true;
  return path.size() > point.size() && path.starts_with(point) && path[point.size()] == '/';
}

// The deepest mount above the directory; of several on one point, the last hides the others.
std::optional<Mount> mount_of(const std::string& directory, const KernelPaths& paths) {
  std::error_code status;
  const std::string real = fs::canonical(directory, status).string();
  if (status) throw_io_failure(status.value(), "use", directory, PathRole::kDirectory);
  std::ifstream file(paths.mountinfo);
  std::optional<Mount> best;
  for (std::string line; std::getline(file, line);) {
    std::optional<Mount> mount = parse_mount(line);
    if (!mount || !is_under(real, mount->point)) continue;
    if (!best || mount->point.size() >= best->point.size()) best = std::move(mount);
  }
  return best;
}

// The sysfs folder of what the directory lies on: a drive, a partition, a dm or md device. Empty if there is none.
fs::path device_folder(const std::string& directory, const KernelPaths& paths) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) throw_io_failure(errno, "use", directory, PathRole::kDirectory);
  const fs::path sysfs(paths.sysfs);
  std::error_code status;
  fs::path folder =
      fs::canonical(sysfs / "dev/block" / fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev)), status);
  if (!status) return folder;
  // btrfs gives every subvolume a device number that belongs to no device.
  const std::optional<Mount> mount = mount_of(directory, paths);
  if (!mount || !mount->source.starts_with("/dev/")) return {};
  // Resolved, since /dev/mapper/x is a link to /dev/dm-0 and sysfs knows only the latter.
  const fs::path node = fs::weakly_canonical(mount->source, status);
  folder = fs::canonical(sysfs / "class/block" / node.filename(), status);
  return status ? fs::path() : folder;
}

std::vector<fs::path> slaves_of(const fs::path& device) {
  std::error_code status;
  std::vector<fs::path> slaves;
  for (const auto& entry : fs::directory_iterator(device / "slaves", status)) {
    fs::path slave = fs::canonical(entry.path(), status);
    if (!status) slaves.push_back(std::move(slave));
  }
  std::sort(slaves.begin(), slaves.end());
  return slaves;
}

BlockDevice describe(const fs::path& device) {
  BlockDevice described{.name = device.filename().string(),
                        .model = read_line(device / "device/model"),
                        .size_bytes = read_number(device / "size") * kSysfsSectorBytes,
                        .rotational = read_number(device / "queue/rotational") != 0,
                        .nvme_node = std::nullopt};
  if (described.name.starts_with("nvme")) described.nvme_node = "/dev/" + described.name;
  return described;
}

void collect(const fs::path& folder, std::vector<BlockDevice>& found) {
  std::error_code status;
  // A partition's folder lies in its drive's.
  const fs::path device = fs::exists(folder / "partition", status) ? folder.parent_path() : folder;
  const std::vector<fs::path> slaves = slaves_of(device);
  for (const fs::path& slave : slaves) collect(slave, found);
  if (!slaves.empty()) return;
  BlockDevice drive = describe(device);
  const bool known =
      std::any_of(found.begin(), found.end(), [&](const auto& other) { return other.name == drive.name; });
  if (!known) found.push_back(std::move(drive));
}

}  // namespace

std::vector<BlockDevice> block_devices(const std::string& directory, const KernelPaths& paths) {
  std::vector<BlockDevice> found;
  if (const fs::path folder = device_folder(directory, paths); !folder.empty()) collect(folder, found);
  return found;
}

std::string file_system_name(const std::string& directory, const KernelPaths& paths) {
  const std::optional<Mount> mount = mount_of(directory, paths);
  return mount ? mount->type : "unknown";
}

}  // namespace sluice
