// SPDX-License-Identifier: Apache-2.0
// A file that grows at its end, record by record: a reader that follows it, or a crash, sees whole records up to the
// last, which may be cut. One thread at a time; not synced.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

class AppendFile {
 public:
  // Made if absent; goes on at the end of what is there.
  AppendFile(FileSystem& files, IoEngine& engine, const std::string& path);

  void append(std::string_view record);
  const std::string& path() const { return file_->path(); }

 private:
  IoEngine& engine_;
  std::unique_ptr<File> file_;
  std::uint64_t end_offset_;
};

}  // namespace sluice
