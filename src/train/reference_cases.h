// SPDX-License-Identifier: Apache-2.0
// For tests: what is kept under tests/reference, a file or folder a case, made by the scripts beside it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/checkpoint.h"
#include "model/tensor_placement.h"

namespace sluice {

inline std::string reference_path(const std::string& name) { return std::string(SLUICE_REFERENCE_DIR) + "/" + name; }

// Of the files or folders in a folder, in order.
inline std::vector<std::string> reference_cases(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(reference_path(folder))) {
    names.push_back(entry.is_directory() ? entry.path().filename().string() : entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// As gtest takes it for the name of a test.
inline std::string test_name(const testing::TestParamInfo<std::string>& parameter) {
  std::string name = parameter.param;
  std::replace_if(
      name.begin(), name.end(), [](char letter) { return letter == '-' || letter == '.'; }, '_');
  return name;
}

template <typename T>
std::vector<T> read_values(const Checkpoint& file, const std::string& name) {
  const TensorInfo& tensor = file.require(name);
  std::vector<T> values(tensor.size_bytes / sizeof(T));
  file.read(tensor, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

// How far a tensor in its slice is from what it should be, over the size of that.
inline double relative_distance(const TensorPlacement& placement, const float* slice,
                                const std::vector<float>& wanted) {
  double difference = 0;
  double size = 0;
  for (const TensorPiece& piece : placement.pieces) {
    for (std::uint64_t idx = 0; idx < piece.count; ++idx) {
      const auto value = static_cast<double>(wanted[piece.tensor_offset + idx]);
      difference = std::hypot(difference, static_cast<double>(slice[piece.slice_offset + idx]) - value);
      size = std::hypot(size, value);
    }
  }
  return size == 0 ? difference : difference / size;
}

}  // namespace sluice
