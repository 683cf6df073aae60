// SPDX-License-Identifier: Apache-2.0
#include "base/regular_file.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"

namespace sluice {

bool is_regular_file(const std::string& path) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  using Type = std::filesystem::file_type;
  if (status.type() == Type::not_found || status.type() == Type::regular) return status.type() == Type::regular;
  if (failure) throw InvalidInput(fmt::format("cannot read {}: {}", path, failure.message()));
  throw InvalidInput(fmt::format("{} is {}, not a file", path,
                                 status.type() == Type::directory ? "a directory" : "a pipe, a socket or a device"));
}

void require_regular_file(const std::string& path) { is_regular_file(path); }

}  // namespace sluice
