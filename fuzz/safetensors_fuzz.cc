// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files and the index of their shards. The first byte says how much longer the file claims to be
// than its header. What is accepted must cover the file without gaps, and what we would write for it must be accepted.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "format/checkpoint_index.h"
#include "format/safetensors_header.h"

namespace {

void parse_header(std::span<const std::byte> bytes, std::uint64_t file_size_bytes) {
  const std::uint64_t prefix_bytes = sluice::safetensors_prefix_bytes(bytes, file_size_bytes, "fuzz");
  if (prefix_bytes > bytes.size()) return;
  const sluice::SafetensorsHeader header = sluice::parse_safetensors_header(bytes, file_size_bytes, "fuzz");
  std::uint64_t end = prefix_bytes;
  std::vector<sluice::PlannedTensor> planned;
  for (const sluice::SafetensorsTensor& tensor : header.tensors) {
    CHECK(tensor.offset_bytes == end, "tensors follow each other");
    end += tensor.size_bytes;
    CHECK(end <= file_size_bytes, "tensors lie in the file");
    if (!tensor.dtype) continue;
    planned.push_back({.name = tensor.name, .dtype = *tensor.dtype, .shape = tensor.shape});
    CHECK(planned.back().size_bytes() == tensor.size_bytes, "sizes follow from type and shape");
  }
  CHECK(end == file_size_bytes, "tensors fill the file");

  const std::string written = sluice::make_safetensors_header(planned, header.metadata);
  std::uint64_t written_size_bytes = written.size();
  for (const sluice::PlannedTensor& tensor : planned) written_size_bytes += tensor.size_bytes();
  const sluice::SafetensorsHeader again =
      sluice::parse_safetensors_header(std::as_bytes(std::span(written)), written_size_bytes, "fuzz");
  CHECK(again.tensors.size() == planned.size() && again.metadata == header.metadata, "what is written is read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  try {
    if (data[0] == 0xFF) {
      sluice::parse_checkpoint_index({reinterpret_cast<const char*>(data + 1), size - 1}, "fuzz");
    } else {
      parse_header(bytes, bytes.size() + data[0]);
    }
  } catch (const sluice::FormatError&) {
  }
  return 0;
}
