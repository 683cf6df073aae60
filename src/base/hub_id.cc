// SPDX-License-Identifier: Apache-2.0
#include "base/hub_id.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"

namespace sluice {
namespace {

// Characters of a Hub name: letters and digits, and inside the name dots, dashes and underscores.
bool is_hub_name(std::string_view name) {
  constexpr std::size_t kLongest = 96;
  const auto is_alnum = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (name.empty() || name.size() > kLongest || !is_alnum(name.front())) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

std::optional<std::string> hub_id_of(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::exists(path, failure)) return std::nullopt;
  std::string_view id(path);
  // A configuration's paths have been made absolute.
  const std::string here = std::filesystem::current_path(failure).string() + "/";
  if (!failure && id.starts_with(here)) id.remove_prefix(here.size());
  while (id.ends_with('/')) id.remove_suffix(1);
  const std::size_t slash = id.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  if (!is_hub_name(id.substr(0, slash)) || !is_hub_name(id.substr(slash + 1))) return std::nullopt;
  return std::string(id);
}

std::string hub_download_command(HubKind kind, const std::string& id) {
  return fmt::format("hf download {}{} --local-dir {}", kind == HubKind::kDataset ? "--repo-type dataset " : "", id,
                     id.substr(id.find('/') + 1));
}

void require_model_directory(const std::string& path, std::string_view what) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (status.type() == std::filesystem::file_type::not_found) {
    const std::optional<std::string> id = hub_id_of(path);
    if (id) {
      throw InvalidInput(
          fmt::format("there is no folder '{}'; if you mean {} of the Hugging Face Hub, download it with '{}' and name "
                      "that folder",
                      path, *id, hub_download_command(HubKind::kModel, *id)));
    }
    throw InvalidInput(fmt::format("there is no folder '{}'; check the path, and name the folder of {}", path, what));
  }
  if (!failure && status.type() != std::filesystem::file_type::directory) {
    throw InvalidInput(fmt::format("'{}' is a file, not a directory; name the folder of {}", path, what));
  }
}

}  // namespace sluice
