// SPDX-License-Identifier: Apache-2.0
#include "format/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "format/whole_file.h"

namespace sluice {
namespace {

constexpr std::uint32_t kVersion = 3;
constexpr std::uint64_t kAlignment = 32;  // what a file without general.alignment has

enum class ValueType : std::uint32_t {
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
};

class HeaderText {
 public:
  void u32(std::uint32_t value) { number(value, 4); }
  void u64(std::uint64_t value) { number(value, 8); }
  void text(std::string_view value) {
    u64(value.size());
    bytes_ += value;
  }
  void raw(std::string_view value) { bytes_ += value; }
  void type(ValueType value) { u32(static_cast<std::uint32_t>(value)); }

  void value(std::uint32_t number_value) { put(ValueType::kUint32, number_value); }
  void value(float number_value) { put(ValueType::kFloat32, std::bit_cast<std::uint32_t>(number_value)); }
  void value(bool flag) {
    type(ValueType::kBool);
    bytes_ += flag ? '\1' : '\0';
  }
  void value(const std::string& text_value) {
    type(ValueType::kString);
    text(text_value);
  }
  void value(const std::vector<std::string>& list) {
    begin_list(ValueType::kString, list.size());
    for (const std::string& item : list) text(item);
  }
  void value(const std::vector<float>& list) {
    begin_list(ValueType::kFloat32, list.size());
    for (const float item : list) u32(std::bit_cast<std::uint32_t>(item));
  }
  void value(const std::vector<std::int32_t>& list) {
    begin_list(ValueType::kInt32, list.size());
    for (const std::int32_t item : list) u32(static_cast<std::uint32_t>(item));
  }

  void pad() { bytes_.resize(round_up(bytes_.size(), kAlignment), '\0'); }
  std::string take() { return std::move(bytes_); }

 private:
  void number(std::uint64_t value, std::size_t num_bytes) {
    for (std::size_t i = 0; i < num_bytes; ++i) bytes_ += static_cast<char>((value >> (8 * i)) & 0xFFU);
  }
  void put(ValueType value_type, std::uint32_t bits) {
    type(value_type);
    u32(bits);
  }
  void begin_list(ValueType item_type, std::size_t size) {
    type(ValueType::kArray);
    type(item_type);
    u64(size);
  }

  std::string bytes_;
};

std::string make_header(const GgufPlan& plan) {
  HeaderText header;
  header.raw("GGUF");
  header.u32(kVersion);
  header.u64(plan.tensors.size());
  header.u64(plan.entries.size());
  for (const GgufEntry& entry : plan.entries) {
    header.text(entry.key);
    std::visit([&](const auto& value) { header.value(value); }, entry.value);
  }
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : plan.tensors) {
    header.text(tensor.name);
    header.u32(static_cast<std::uint32_t>(tensor.shape.rank()));
    for (std::size_t dim = tensor.shape.rank(); dim > 0; --dim) {
      header.u64(static_cast<std::uint64_t>(tensor.shape[dim - 1]));
    }
    header.u32(static_cast<std::uint32_t>(tensor.encoding));
    header.u64(offset);
    offset += round_up(tensor.size_bytes(), kAlignment);
  }
  header.pad();
  return header.take();
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

std::uint64_t GgufTensor::size_bytes() const {
  return encoded_bytes(encoding, static_cast<std::uint64_t>(shape.num_elements()));
}

GgufWriter::GgufWriter(FileSystem& files, IoEngine& engine, std::string path, const GgufPlan& plan)
    : files_(files), engine_(engine), path_(std::move(path)) {
  const std::string folder = folder_of(path_);
  files_.require_directory(folder, OpenMode::kReadWrite);
  if (files_.exists(path_)) {
    throw InvalidInput(fmt::format("'{}' is there already; name a new file, or remove it first", path_));
  }
  const std::string header = make_header(plan);
  size_bytes_ = header.size();
  for (const GgufTensor& tensor : plan.tensors) {
    extents_.push_back({size_bytes_, tensor.size_bytes()});
    CHECK(extents_.back().size_bytes > 0, "a tensor has elements");
    size_bytes_ += round_up(extents_.back().size_bytes, kAlignment);
  }
  const std::uint64_t free_bytes = files_.free_bytes(folder);
  if (size_bytes_ > free_bytes) {
    throw IoError(ENOSPC, fmt::format("the file takes {}, and {} are free in '{}'; free space on that drive, or name a "
                                      "file on another",
                                      format_bytes(size_bytes_), format_bytes(free_bytes), folder));
  }
  const std::string part_path = path_ + std::string(kPartSuffix);
  files_.remove(part_path);
  try {
    file_ = files_.open(part_path, OpenMode::kCreate, Caching::kPageCache);
    file_->preallocate(size_bytes_);  // what lies between tensors stays zero
    engine_.submit(IoRequest::write(*file_, 0, std::as_bytes(std::span(header)))).wait();
  } catch (...) {
    file_.reset();
    remove_quietly(files_, part_path);
    throw;
  }
}

GgufWriter::~GgufWriter() {
  if (file_ == nullptr) return;
  file_.reset();
  remove_quietly(files_, path_ + std::string(kPartSuffix));
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    CHECK(file_ != nullptr && tensor_idx_ < extents_.size(), "no more is written than was planned");
    const Extent& extent = extents_[tensor_idx_];
    const std::uint64_t piece_bytes = std::min<std::uint64_t>(bytes.size(), extent.size_bytes - tensor_done_bytes_);
    engine_.submit(IoRequest::write(*file_, extent.offset + tensor_done_bytes_, bytes.first(piece_bytes))).wait();
    tensor_done_bytes_ += piece_bytes;
    bytes = bytes.subspan(piece_bytes);
    if (tensor_done_bytes_ == extent.size_bytes) {
      ++tensor_idx_;
      tensor_done_bytes_ = 0;
    }
  }
}

void GgufWriter::finish() {
  CHECK(file_ != nullptr && tensor_idx_ == extents_.size(), "all that was planned has been written, once");
  engine_.submit(IoRequest::sync(*file_)).wait();
  files_.rename(path_ + std::string(kPartSuffix), path_);
  file_.reset();
  files_.sync_directory(folder_of(path_));
}

}  // namespace sluice
