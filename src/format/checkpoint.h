// SPDX-License-Identifier: Apache-2.0
// The tensors of a Hugging Face model folder: model.safetensors, or the shards that model.safetensors.index.json names.
// Opening reads the headers only and checks them against each other; tensors are read later, byte range by byte range,
// straight into the caller's memory. Owns the open files. Thread-safe once made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/safetensors_header.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

inline constexpr const char* kSafetensorsName = "model.safetensors";
inline constexpr const char* kSafetensorsIndexName = "model.safetensors.index.json";

// Those two, and model-00001-of-00002.safetensors: what transformers would take for the checkpoint.
bool is_checkpoint_name(std::string_view name);

struct TensorInfo : SafetensorsTensor {
  std::size_t shard_idx = 0;
};

class Checkpoint {
 public:
  // `path`: a folder, or one file whose name ends in .safetensors. Throws InvalidInput where there is no checkpoint
  // that can be read, FormatError where there is one that is damaged. `files` and `engine` outlive the checkpoint.
  Checkpoint(FileSystem& files, IoEngine& engine, const std::string& path);
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // by name
  const TensorInfo* find(std::string_view name) const;                 // null where there is none
  const TensorInfo& require(std::string_view name) const;              // FormatError that names the checkpoint
  // The type of a tensor that is about to be used; FormatError where it is one that Sluice does not have.
  DType require_dtype(const TensorInfo& tensor) const;
  std::uint64_t total_bytes() const { return total_bytes_; }  // of all tensors
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::size_t num_shards() const { return shards_.size(); }
  const std::string& shard_path(const TensorInfo& tensor) const;

  // The tensor's bytes [first_byte, first_byte + into.size()). Returns when they are there. Throws IoError where the
  // drive fails, FormatError where the file has become shorter since it was opened.
  void read(const TensorInfo& tensor, std::uint64_t first_byte, std::span<std::byte> into) const;

 private:
  void add_shard(const std::string& shard_path);
  void sort_by_name();
  void match_index(const std::map<std::string, std::string>& weight_map, const std::string& index_path) const;

  FileSystem& files_;
  IoEngine& engine_;
  std::string path_;
  std::vector<std::unique_ptr<File>> shards_;
  std::vector<TensorInfo> tensors_;
  std::uint64_t total_bytes_ = 0;
  std::map<std::string, std::string> metadata_;
};

}  // namespace sluice
