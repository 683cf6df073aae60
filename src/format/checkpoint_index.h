// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json: which shard holds which tensor. Bytes to meaning and back; the shards are not looked
// at.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

struct CheckpointIndex {
  std::map<std::string, std::string> weight_map;  // tensor to shard; shards are plain file names of the same folder
  std::optional<std::uint64_t> total_bytes;       // as metadata.total_size has it
};

// Throws FormatError; `where` names the file in it.
CheckpointIndex parse_checkpoint_index(std::string_view text, const std::string& where);
CheckpointIndex read_checkpoint_index(FileSystem& files, IoEngine& engine, const std::string& path);

std::string make_checkpoint_index(const CheckpointIndex& index);

}  // namespace sluice
