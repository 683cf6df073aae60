// SPDX-License-Identifier: Apache-2.0
#include "train/append_file.h"

#include <span>

namespace sluice {

AppendFile::AppendFile(FileSystem& files, IoEngine& engine, const std::string& path)
    : engine_(engine),
      file_(files.open(path, OpenMode::kCreate, Caching::kPageCache)),
      end_offset_(file_->size_bytes()) {}

void AppendFile::append(std::string_view record) {
  engine_.submit(IoRequest::write(*file_, end_offset_, std::as_bytes(std::span(record)))).wait();
  end_offset_ += record.size();
}

}  // namespace sluice
