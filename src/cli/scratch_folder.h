// SPDX-License-Identifier: Apache-2.0
// A new folder among the system's temporary files, gone with all that is in it when this dies.
#pragma once

#include <string>

namespace sluice {

class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& purpose);  // a part of its name: "plan"
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace sluice
