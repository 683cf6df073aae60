// SPDX-License-Identifier: Apache-2.0
// A folder that a model's files are written to, which are of use together only: unless all of them came to be, those
// that did not stand there before are removed. Files that are no model's stay. For one thread.
#pragma once

#include <string>
#include <vector>

#include "io/file.h"

namespace sluice {

class UnfinishedFolder {
 public:
  UnfinishedFolder(FileSystem& files, std::string path);
  ~UnfinishedFolder();
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  void finish() { is_finished_ = true; }

 private:
  FileSystem& files_;
  std::string path_;
  std::vector<std::string> before_;
  bool is_finished_ = false;
};

}  // namespace sluice
