// SPDX-License-Identifier: Apache-2.0
#include "format/whole_file.h"

#include <exception>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"

namespace sluice {

std::string read_whole_file(FileSystem& files, IoEngine& engine, const std::string& path, std::uint64_t max_bytes) {
  const auto file = files.open(path, OpenMode::kReadOnly, Caching::kPageCache);
  const std::uint64_t size_bytes = file->size_bytes();
  if (size_bytes > max_bytes) {
    throw FormatError(fmt::format("'{}' is {} long; a file of its kind has at most {}", path, format_bytes(size_bytes),
                                  format_bytes(max_bytes)));
  }
  std::string text(size_bytes, '\0');
  engine.submit(IoRequest::read(*file, 0, std::as_writable_bytes(std::span(text)))).wait();
  return text;
}

void write_part_file(FileSystem& files, IoEngine& engine, const std::string& path, std::string_view text) {
  const std::string part_path = path + std::string(kPartSuffix);
  files.remove(part_path);
  try {
    const auto file = files.open(part_path, OpenMode::kCreate, Caching::kPageCache);
    engine.submit(IoRequest::write(*file, 0, std::as_bytes(std::span(text)))).wait();
    engine.submit(IoRequest::sync(*file)).wait();
  } catch (const Error&) {
    remove_quietly(files, part_path);
    throw;
  }
}

void write_whole_file(FileSystem& files, IoEngine& engine, const std::string& path, std::string_view text) {
  write_part_file(files, engine, path, text);
  const std::string part_path = path + std::string(kPartSuffix);
  try {
    files.rename(part_path, path);
  } catch (const Error&) {
    remove_quietly(files, part_path);
    throw;
  }
}

void remove_quietly(FileSystem& files, const std::string& path) noexcept {
  try {
    files.remove(path);
  } catch (const std::exception& error) {
    log_debug(fmt::format("'{}' stays behind: {}", path, error.what()));
  }
}

}  // namespace sluice
