// SPDX-License-Identifier: Apache-2.0
// The head of a safetensors file: 8 bytes of length (little-endian), that many bytes of JSON, then the tensors' bytes
// without a gap to the end of the file. Pure functions over bytes: nothing here opens a file.
// What is accepted is whole: every offset, size and shape has been checked against the others and the file's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace sluice {

inline constexpr std::uint64_t kSafetensorsLengthBytes = 8;
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;  // the limit of the reference reader
inline constexpr std::uint64_t kSafetensorsDataAlignment = 4096;          // of what we write: fit for O_DIRECT

struct SafetensorsTensor {
  std::string name;
  std::string dtype_text;      // as the file has it: "F64"
  std::optional<DType> dtype;  // none where Sluice has no such type
  Shape shape;
  std::uint64_t offset_bytes = 0;  // from the start of the file
  std::uint64_t size_bytes = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsTensor> tensors;  // in the order of their bytes
};

// How many bytes parse_safetensors_header() needs, from the file's first 8. Throws FormatError where the length cannot
// be right for a file of that size; `where` names the file in every failure.
std::uint64_t safetensors_prefix_bytes(std::span<const std::byte> length_bytes, std::uint64_t file_size_bytes,
                                       const std::string& where);

// `first_bytes`: the length and the header; more may follow. Throws FormatError.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> first_bytes, std::uint64_t file_size_bytes,
                                           const std::string& where);

// A tensor that is to be written.
struct PlannedTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;

  std::uint64_t size_bytes() const;
};

// Length and header of a file that holds the tensors in this order. Padded with spaces, so that their bytes start at a
// multiple of kSafetensorsDataAlignment. Throws InvalidInput where a name is taken twice, reserved or not UTF-8.
std::string make_safetensors_header(std::span<const PlannedTensor> tensors,
                                    const std::map<std::string, std::string>& metadata);

}  // namespace sluice
