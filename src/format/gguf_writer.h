// SPDX-License-Identifier: Apache-2.0
// Writes a GGUF file (version 3, little-endian) whose tensors arrive in pieces; holds none of them. The file grows
// under a temporary name beside its final one; finish() syncs and renames it. Without finish(), the destructor removes
// the temporary. Knows nothing of models: keys and values are the caller's. For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "format/gguf_encoding.h"
#include "io/file.h"
#include "io/io_engine.h"
#include "tensor/shape.h"

namespace sluice {

using GgufValue = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::string>, std::vector<float>,
                               std::vector<std::int32_t>>;

struct GgufEntry {
  std::string key;
  GgufValue value;
};

struct GgufTensor {
  std::string name;
  Shape shape;  // row-major as everywhere in Sluice; GGUF names the last dimension first
  GgufEncoding encoding = GgufEncoding::kF32;

  std::uint64_t size_bytes() const;
};

struct GgufPlan {
  std::vector<GgufEntry> entries;
  std::vector<GgufTensor> tensors;  // in the order in which they will be written
};

class GgufWriter {
 public:
  // Throws InvalidInput where the path is taken or its folder is not there, IoError where there is no room.
  GgufWriter(FileSystem& files, IoEngine& engine, std::string path, const GgufPlan& plan);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  // The next bytes of the tensors, one after the other; what lies between them in the file is not the caller's.
  void write(std::span<const std::byte> bytes);
  // All tensors have been written. Durable on return.
  void finish();

  std::uint64_t size_bytes() const { return size_bytes_; }

 private:
  struct Extent {
    std::uint64_t offset = 0;  // in the file
    std::uint64_t size_bytes = 0;
  };

  FileSystem& files_;
  IoEngine& engine_;
  std::string path_;
  std::vector<Extent> extents_;  // of the tensors
  std::uint64_t size_bytes_ = 0;
  std::unique_ptr<File> file_;
  std::size_t tensor_idx_ = 0;
  std::uint64_t tensor_done_bytes_ = 0;
};

}  // namespace sluice
