// SPDX-License-Identifier: Apache-2.0
// A new temporary directory; the destructor removes it with its contents.
#pragma once

#include <string>

namespace sluice {

class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& purpose);  // part of the directory's name: "plan"
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace sluice
