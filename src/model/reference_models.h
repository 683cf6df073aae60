// SPDX-License-Identifier: Apache-2.0
// The models that transformers computed with (tests/reference), for tests.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

inline const std::string kReferenceModels = SLUICE_REFERENCE_DIR "/models";

inline std::vector<std::string> reference_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kReferenceModels)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace sluice
