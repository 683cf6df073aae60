// SPDX-License-Identifier: Apache-2.0
#include "format/checkpoint_writer.h"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "format/checkpoint.h"
#include "format/checkpoint_index.h"
#include "format/json_text.h"
#include "format/whole_file.h"

namespace sluice {
namespace {

// Left by a process that was killed while it saved.
bool is_leftover(std::string_view name, std::string_view only_file) {
  if (!name.ends_with(kPartSuffix)) return false;
  const std::string_view whole = name.substr(0, name.size() - kPartSuffix.size());
  return is_checkpoint_name(whole) || whole == only_file;
}

std::string shard_name(std::size_t shard_idx, std::size_t num_shards) {
  return num_shards == 1 ? std::string(kSafetensorsName)
                         : fmt::format("model-{:05}-of-{:05}.safetensors", shard_idx + 1, num_shards);
}

void require_unique_names(const std::vector<PlannedTensor>& tensors) {
  std::unordered_set<std::string_view> names;
  for (const PlannedTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw InvalidInput(fmt::format("a checkpoint cannot hold a second tensor {}", in_quotes(tensor.name)));
    }
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(FileSystem& files, IoEngine& engine, std::string folder, CheckpointPlan plan)
    : files_(files), engine_(engine), folder_(std::move(folder)), plan_(std::move(plan)) {
  CHECK(plan_.max_shard_bytes > 0, "a shard holds something");
  require_unique_names(plan_.tensors);
  files_.require_directory(folder_, OpenMode::kReadWrite);
  for (const std::string& name : files_.list(folder_)) {
    if (is_leftover(name, plan_.only_file)) {
      files_.remove(final_path(name));
    } else {
      throw InvalidInput(
          fmt::format("'{}' is not empty (it holds {}); name a new or empty folder to save to, or empty this one",
                      folder_, in_quotes(name)));
    }
  }
  divide_into_shards();
  require_room();
  try {
    open_shard();
    skip_to_next_bytes();
  } catch (...) {
    abandon();
    throw;
  }
}

CheckpointWriter::~CheckpointWriter() { abandon(); }

void CheckpointWriter::abandon() noexcept {
  file_.reset();
  for (const std::string& path : created_paths_) remove_quietly(files_, path);
  created_paths_.clear();
}

void CheckpointWriter::divide_into_shards() {
  shards_.emplace_back();
  std::uint64_t shard_bytes = 0;
  for (std::size_t i = 0; i < plan_.tensors.size(); ++i) {
    const std::uint64_t tensor_bytes = plan_.tensors[i].size_bytes();
    if (shards_.back().num_tensors > 0 && plan_.only_file.empty() &&
        tensor_bytes > plan_.max_shard_bytes - std::min(shard_bytes, plan_.max_shard_bytes)) {
      shards_.push_back({.first_tensor_idx = i});
      shard_bytes = 0;
    }
    ++shards_.back().num_tensors;
    shard_bytes += tensor_bytes;
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    shards_[i].name = plan_.only_file.empty() ? shard_name(i, shards_.size()) : plan_.only_file;
    lay_out(shards_[i]);
  }
}

void CheckpointWriter::lay_out(Shard& shard) const {
  const std::span<const PlannedTensor> tensors =
      std::span(plan_.tensors).subspan(shard.first_tensor_idx, shard.num_tensors);
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_bytes(tensors[a].dtype) > size_bytes(tensors[b].dtype);
  });
  std::vector<PlannedTensor> in_file;
  in_file.reserve(tensors.size());
  for (const std::size_t idx : order) in_file.push_back(tensors[idx]);
  shard.header = make_safetensors_header(in_file, plan_.metadata);
  shard.offsets.resize(tensors.size());
  shard.size_bytes = shard.header.size();
  for (const std::size_t idx : order) {
    shard.offsets[idx] = shard.size_bytes;
    shard.size_bytes += tensors[idx].size_bytes();
  }
}

void CheckpointWriter::require_room() const {
  std::uint64_t needed_bytes = 0;
  for (const Shard& shard : shards_) needed_bytes += shard.size_bytes;
  const std::uint64_t free_bytes = files_.free_bytes(folder_);
  if (needed_bytes > free_bytes) {
    throw IoError(ENOSPC, fmt::format("the checkpoint takes {}, and {} are free in '{}'; free space on that drive, or "
                                      "name a folder on another",
                                      format_bytes(needed_bytes), format_bytes(free_bytes), folder_));
  }
}

const PlannedTensor* CheckpointWriter::next_tensor() const {
  return tensor_idx_ < plan_.tensors.size() ? &plan_.tensors[tensor_idx_] : nullptr;
}

void CheckpointWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const PlannedTensor* tensor = next_tensor();
    CHECK(tensor != nullptr && file_ != nullptr, "no more is written than was planned");
    const std::uint64_t piece_bytes = std::min<std::uint64_t>(bytes.size(), tensor->size_bytes() - tensor_done_bytes_);
    const Shard& shard = shards_[shard_idx_];
    const std::uint64_t offset = shard.offsets[tensor_idx_ - shard.first_tensor_idx] + tensor_done_bytes_;
    engine_.submit(IoRequest::write(*file_, offset, bytes.first(piece_bytes))).wait();
    tensor_done_bytes_ += piece_bytes;
    bytes = bytes.subspan(piece_bytes);
    skip_to_next_bytes();
  }
}

// Past tensors that are complete, empty ones among them, and into the next shard behind the last of one.
void CheckpointWriter::skip_to_next_bytes() {
  while (file_ != nullptr) {
    const Shard& shard = shards_[shard_idx_];
    if (tensor_idx_ == shard.first_tensor_idx + shard.num_tensors) {
      close_shard();
      if (shard_idx_ + 1 == shards_.size()) return;
      ++shard_idx_;
      open_shard();
    } else if (tensor_done_bytes_ == plan_.tensors[tensor_idx_].size_bytes()) {
      ++tensor_idx_;
      tensor_done_bytes_ = 0;
    } else {
      return;
    }
  }
}

void CheckpointWriter::open_shard() {
  Shard& shard = shards_[shard_idx_];
  const std::string path = part_path(shard.name);
  created_paths_.push_back(path);
  file_ = files_.open(path, OpenMode::kCreate, Caching::kPageCache);
  file_->preallocate(shard.size_bytes);
  engine_.submit(IoRequest::write(*file_, 0, std::as_bytes(std::span(shard.header)))).wait();
  shard.header = {};
}

void CheckpointWriter::close_shard() {
  engine_.submit(IoRequest::sync(*file_)).wait();
  file_.reset();
}

std::string CheckpointWriter::index_text() const {
  CheckpointIndex index;
  index.total_bytes = 0;
  for (const Shard& shard : shards_) {
    for (std::size_t i = 0; i < shard.num_tensors; ++i) {
      const PlannedTensor& tensor = plan_.tensors[shard.first_tensor_idx + i];
      index.weight_map.emplace(tensor.name, shard.name);
      *index.total_bytes += tensor.size_bytes();
    }
  }
  return make_checkpoint_index(index);
}

void CheckpointWriter::finish() {
  CHECK(next_tensor() == nullptr && file_ == nullptr && !created_paths_.empty(),
        "all that was planned has been written, once");
  std::vector<std::string> names;
  for (const Shard& shard : shards_) names.push_back(shard.name);
  if (shards_.size() > 1) {
    const std::string index_path = final_path(kSafetensorsIndexName);
    write_part_file(files_, engine_, index_path, index_text());
    created_paths_.push_back(part_path(kSafetensorsIndexName));
    names.emplace_back(kSafetensorsIndexName);
  }
  put_in_place(names);
}

// Renames the files into place. The last one makes readers see the weights, so the other renames are durable before it.
// On failure the destructor removes all of them.
void CheckpointWriter::put_in_place(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (&name == &names.back()) files_.sync_directory(folder_);
    files_.rename(part_path(name), final_path(name));
    *std::find(created_paths_.begin(), created_paths_.end(), part_path(name)) = final_path(name);
  }
  files_.sync_directory(folder_);
  created_paths_.clear();
}

std::string CheckpointWriter::final_path(const std::string& name) const { return folder_ + "/" + name; }

std::string CheckpointWriter::part_path(const std::string& name) const {
  return final_path(name) + std::string(kPartSuffix);
}

}  // namespace sluice
