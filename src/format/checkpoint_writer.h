// SPDX-License-Identifier: Apache-2.0
// Writes a Hugging Face checkpoint whose tensors arrive in pieces; holds none of them. Shards grow under temporary
// names beside their final ones; finish() syncs and renames them, the index last. Without finish(), the destructor
// removes the temporaries. For one thread.
//
// Within a shard, tensors with wider elements lie first, so that each starts at a multiple of its element's size (the
// format allows no gaps, and PyTorch maps only aligned ones). Tensors of one type keep the plan's order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/safetensors_header.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

struct CheckpointPlan {
  std::vector<PlannedTensor> tensors;             // in the order in which they will be written
  std::uint64_t max_shard_bytes = 5'000'000'000;  // of tensors; a larger tensor gets a shard of its own
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  std::string only_file = {};  // its name, where all tensors go into one file that is not a model's; else empty
};

class CheckpointWriter {
 public:
  // Throws InvalidInput if the folder is missing or not empty, IoError if there is not enough space.
  CheckpointWriter(FileSystem& files, IoEngine& engine, std::string folder, CheckpointPlan plan);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // The tensor whose bytes come next; null when all have come.
  const PlannedTensor* next_tensor() const;
  // The next bytes of the checkpoint; may end one tensor and begin another. The memory is free again on return. After
  // a failure, here or in finish(), nothing may be called.
  void write(std::span<const std::byte> bytes);
  // All tensors have been written. Durable on return.
  void finish();

  std::size_t num_shards() const { return shards_.size(); }

 private:
  struct Shard {
    std::string name;                  // once in place
    std::size_t first_tensor_idx = 0;  // its tensors are consecutive in the plan
    std::size_t num_tensors = 0;
    std::string header;                  // let go once written
    std::vector<std::uint64_t> offsets;  // of each of its tensors, in the plan's order
    std::uint64_t size_bytes = 0;        // of the file
  };

  void abandon() noexcept;
  void divide_into_shards();
  void lay_out(Shard& shard) const;
  void require_room() const;
  void skip_to_next_bytes();
  void open_shard();
  void close_shard();
  std::string index_text() const;
  void put_in_place(const std::vector<std::string>& names);
  std::string final_path(const std::string& name) const;
  std::string part_path(const std::string& name) const;

  FileSystem& files_;
  IoEngine& engine_;
  std::string folder_;
  CheckpointPlan plan_;
  std::vector<Shard> shards_;
  std::vector<std::string> created_paths_;  // what abandon() removes
  std::unique_ptr<File> file_;              // of the shard that is being written
  std::size_t shard_idx_ = 0;               // the shard and the tensor that the next byte belongs to
  std::size_t tensor_idx_ = 0;
  std::uint64_t tensor_done_bytes_ = 0;
};

}  // namespace sluice
