// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_file.h"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/regular_file.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::uint64_t kMaxFileBytes = 128ULL << 20;  // Gemma 3's, the largest there are, have 35 MB

}  // namespace

std::string read_tokenizer_file(const std::string& path) {
  require_regular_file(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(errno, fmt::format("cannot read {}: {}", path, errno_text(errno)));
  std::error_code failure;
  const std::uint64_t size_bytes = std::filesystem::file_size(path, failure);
  if (failure) throw IoError(failure.value(), fmt::format("cannot read {}: {}", path, failure.message()));
  if (size_bytes > kMaxFileBytes) {
    throw FormatError(fmt::format("{} is {} long; a file of its kind has at most {}", path, format_bytes(size_bytes),
                                  format_bytes(kMaxFileBytes)));
  }
  std::string bytes(size_bytes, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.gcount() != static_cast<std::streamsize>(bytes.size())) {
    throw IoError(EIO, fmt::format("cannot read {}: it became shorter while it was read", path));
  }
  return bytes;
}

nlohmann::json parse_tokenizer_file(std::string_view text, const std::string& where, const OnKey& on_key) {
  const auto look = [&on_key](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::key) on_key(depth, value.get_ref<const std::string&>());
    return true;
  };
  try {
    return on_key ? nlohmann::json::parse(text, look) : nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    const auto* const at = dynamic_cast<const nlohmann::json::parse_error*>(&error);
    throw FormatError(fmt::format("{} is not JSON: it goes wrong at byte {} of {}; was it cut off or edited?", where,
                                  at != nullptr ? at->byte : 0, text.size()));
  }
}

}  // namespace sluice
