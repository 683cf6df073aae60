// SPDX-License-Identifier: Apache-2.0
#include "format/checkpoint.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "format/checkpoint_index.h"
#include "format/json_text.h"

namespace sluice {
namespace {

constexpr std::string_view kSuffix = ".safetensors";

bool is_safetensors_name(std::string_view path) { return path.ends_with(kSuffix); }

bool is_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Says why a folder that has neither of the two files cannot be read.
[[noreturn]] void refuse_folder(FileSystem& files, const std::string& folder) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (files.exists(folder + "/" + name)) {
      throw InvalidInput(
          fmt::format("'{}' holds its weights as {}, which can run code when it is read; convert it to "
                      "safetensors (in transformers: save_pretrained) and name that folder",
                      folder, name));
    }
  }
  throw InvalidInput(fmt::format("'{}' has neither {} nor {}; name the folder of a Hugging Face model", folder,
                                 kSafetensorsName, kSafetensorsIndexName));
}

SafetensorsHeader read_header(IoEngine& engine, File& file) {
  const std::uint64_t file_bytes = file.size_bytes();
  std::vector<std::byte> bytes(std::min(file_bytes, kSafetensorsLengthBytes));
  engine.submit(IoRequest::read(file, 0, bytes)).wait();
  bytes.resize(safetensors_prefix_bytes(bytes, file_bytes, file.path()));
  engine.submit(IoRequest::read(file, kSafetensorsLengthBytes, std::span(bytes).subspan(kSafetensorsLengthBytes)))
      .wait();
  return parse_safetensors_header(bytes, file_bytes, file.path());
}

}  // namespace

bool is_checkpoint_name(std::string_view name) {
  if (name == kSafetensorsName || name == kSafetensorsIndexName) return true;
  constexpr std::string_view kShape = "model-00000-of-00000.safetensors";
  return name.size() == kShape.size() && name.substr(0, 6) == kShape.substr(0, 6) && is_digits(name.substr(6, 5)) &&
         name.substr(11, 4) == kShape.substr(11, 4) && is_digits(name.substr(15, 5)) &&
         name.substr(20) == kShape.substr(20);
}

Checkpoint::Checkpoint(FileSystem& files, IoEngine& engine, const std::string& path)
    : files_(files), engine_(engine), path_(path) {
  if (is_safetensors_name(path)) {
    add_shard(path);
    sort_by_name();
    return;
  }
  files.require_directory(path, OpenMode::kReadOnly);
  const std::string index_path = path + "/" + kSafetensorsIndexName;
  // The order in which transformers looks: one file wins over an index beside it.
  if (files.exists(path + "/" + kSafetensorsName)) {
    add_shard(path + "/" + kSafetensorsName);
    sort_by_name();
  } else if (files.exists(index_path)) {
    const CheckpointIndex index = read_checkpoint_index(files, engine, index_path);
    std::set<std::string> shard_names;
    for (const auto& [tensor_name, shard_name] : index.weight_map) shard_names.insert(shard_name);
    for (const std::string& shard_name : shard_names) {
      if (!files.exists(fmt::format("{}/{}", path, shard_name))) {
        throw FormatError(fmt::format("'{}' names the shard {}, which is not there; download the missing file",
                                      index_path, in_quotes(shard_name)));
      }
    }
    for (const std::string& shard_name : shard_names) add_shard(fmt::format("{}/{}", path, shard_name));
    sort_by_name();
    match_index(index.weight_map, index_path);
    if (index.total_bytes && *index.total_bytes != total_bytes_) {
      // Off in many published models (tied weights are counted twice), so it decides nothing.
      log_debug(fmt::format("'{}' says that its tensors take {} bytes; they take {}", index_path, *index.total_bytes,
                            total_bytes_));
    }
  } else {
    refuse_folder(files, path);
  }
}

Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;

void Checkpoint::add_shard(const std::string& shard_path) {
  auto file = files_.open(shard_path, OpenMode::kReadOnly, Caching::kPageCache);
  SafetensorsHeader header = read_header(engine_, *file);
  for (SafetensorsTensor& tensor : header.tensors) {
    total_bytes_ += tensor.size_bytes;
    tensors_.push_back({std::move(tensor), shards_.size()});
  }
  metadata_.merge(header.metadata);
  shards_.push_back(std::move(file));
}

void Checkpoint::sort_by_name() {
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(tensors_.begin(), tensors_.end(),
                                        [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  if (twice != tensors_.end()) {
    throw FormatError(fmt::format("tensor {} is in '{}' and in '{}'; expected it in one of them",
                                  in_quotes(twice->name), shard_path(*twice), shard_path(*(twice + 1))));
  }
}

void Checkpoint::match_index(const std::map<std::string, std::string>& weight_map,
                             const std::string& index_path) const {
  for (const auto& [tensor_name, shard_name] : weight_map) {
    const TensorInfo* tensor = find(tensor_name);
    const std::string expected_path = path_ + "/" + shard_name;
    if (tensor == nullptr) {
      throw FormatError(fmt::format("'{}' has no tensor {}, which '{}' says it holds; are they of one model?",
                                    expected_path, in_quotes(tensor_name), index_path));
    }
    if (shard_path(*tensor) != expected_path) {
      throw FormatError(fmt::format("tensor {} is in '{}', and '{}' says it is in {}", in_quotes(tensor_name),
                                    shard_path(*tensor), index_path, in_quotes(shard_name)));
    }
  }
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const TensorInfo& tensor, std::string_view key) { return tensor.name < key; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const TensorInfo& Checkpoint::require(std::string_view name) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) {
    throw FormatError(
        fmt::format("'{}' has no tensor {}; is it the model that its config.json describes?", path_, in_quotes(name)));
  }
  return *tensor;
}

DType Checkpoint::require_dtype(const TensorInfo& tensor) const {
  if (!tensor.dtype) {
    throw FormatError(
        fmt::format("tensor {} of '{}' is {}, a type that Sluice does not compute with; convert it to BF16",
                    in_quotes(tensor.name), shard_path(tensor), tensor.dtype_text));
  }
  return *tensor.dtype;
}

const std::string& Checkpoint::shard_path(const TensorInfo& tensor) const {
  CHECK(tensor.shard_idx < shards_.size(), "the tensor is one of this checkpoint");
  return shards_[tensor.shard_idx]->path();
}

void Checkpoint::read(const TensorInfo& tensor, std::uint64_t first_byte, std::span<std::byte> into) const {
  CHECK(tensor.shard_idx < shards_.size(), "the tensor is one of this checkpoint");
  CHECK(first_byte <= tensor.size_bytes && into.size() <= tensor.size_bytes - first_byte,
        "what is read lies within the tensor");
  File& file = *shards_[tensor.shard_idx];
  try {
    engine_.submit(IoRequest::read(file, tensor.offset_bytes + first_byte, into)).wait();
  } catch (const FormatError&) {
    throw FormatError(
        fmt::format("'{}' ends within tensor {}: the file has become shorter since it was opened; "
                    "download it again",
                    file.path(), in_quotes(tensor.name)));
  }
}

}  // namespace sluice
