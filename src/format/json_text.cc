// SPDX-License-Identifier: Apache-2.0
#include "format/json_text.h"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice {

nlohmann::json parse_json(std::string_view text, const std::string& where) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw FormatError(fmt::format("{} is not JSON: it goes wrong at byte {} of {}; was it cut off or edited?", where,
                                  error.byte, text.size()));
  }
}

nlohmann::json read_json_file(const std::string& path, std::uint64_t max_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(errno, fmt::format("cannot read {}: {}", path, errno_text(errno)));
  std::error_code failure;
  const std::uint64_t size_bytes = std::filesystem::file_size(path, failure);
  if (failure) throw IoError(failure.value(), fmt::format("cannot read {}: {}", path, failure.message()));
  if (size_bytes > max_bytes) {
    throw FormatError(fmt::format("{} is {} long; a file of its kind has at most {}", path, format_bytes(size_bytes),
                                  format_bytes(max_bytes)));
  }
  std::string text(size_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() != static_cast<std::streamsize>(text.size())) {
    throw IoError(EIO, fmt::format("cannot read {}: it became shorter while it was read", path));
  }
  return parse_json(text, path);
}

}  // namespace sluice
