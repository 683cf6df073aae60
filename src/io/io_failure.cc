// SPDX-License-Identifier: Apache-2.0
#include "io/io_failure.h"

#include <cerrno>

#include <fmt/core.h>

#include "base/error.h"

namespace sluice {
namespace {

// Empty for what is not the user's to mend.
std::string_view user_remedy(int errno_value, PathRole role) {
  const bool is_directory = role == PathRole::kDirectory;
  switch (errno_value) {
    case ENOENT:
      if (role == PathRole::kExisting) return "check the path";
      return is_directory ? "check the path, or make the directory first"
                          : "make the directory that it goes into first";
    case ENOTDIR:
      return is_directory ? "name a directory" : "a part of the path is a file; check the path";
    case EISDIR:
      return "name a file";
    case ELOOP:
    case ENAMETOOLONG:
      return "check the path";
    case EACCES:
    case EPERM:
      return is_directory ? "give this user access, or name another directory"
                          : "give this user access, or name another path";
    case EROFS:
      return "the file system is mounted read-only; name another directory";
    default:
      return {};
  }
}

std::string_view failure_remedy(int errno_value) {
  switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
      return "free space on that drive and start again; everything committed is kept";
    case EIO:
    case ENXIO:
    case ENODEV:
    case EROFS:
      return "the drive failed; see the kernel log (dmesg), and keep what was committed by copying it off this drive";
    case EMFILE:
    case ENFILE:
      return "raise the limit on open files (ulimit -n)";
    case ENOMEM:
      return "raise the limit on locked memory (ulimit -l) or close other programs";
    default:
      return "the kernel log (dmesg) may say more";
  }
}

}  // namespace

void throw_io_failure(int errno_value, std::string_view action, const std::string& path, PathRole role) {
  if (const std::string_view remedy = user_remedy(errno_value, role); !remedy.empty()) {
    throw InvalidInput(fmt::format("cannot {} '{}': {}; {}", action, path, errno_text(errno_value), remedy));
  }
  throw IoError(errno_value, fmt::format("cannot {} '{}': {}; {}", action, path, errno_text(errno_value),
                                         failure_remedy(errno_value)));
}

std::exception_ptr transfer_failure(int errno_value, std::string_view action, const std::string& path) {
  return std::make_exception_ptr(IoError(
      errno_value,
      fmt::format("cannot {} '{}': {}; {}", action, path, errno_text(errno_value), failure_remedy(errno_value))));
}

}  // namespace sluice
