// SPDX-License-Identifier: Apache-2.0
#include "model/packed_block.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::uint64_t kAlignment = 64;  // bytes

// Hands out views front to back; without memory it only counts.
class Cutter {
 public:
  explicit Cutter(std::span<std::byte> memory) : memory_(memory) {}

  TensorView take(DType dtype, const Shape& shape) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(shape.num_elements()) * size_bytes(dtype);
    const std::uint64_t at = used_bytes_;
    used_bytes_ += round_up(bytes, kAlignment);
    return memory_.empty() ? TensorView() : TensorView(memory_.subspan(at, bytes), dtype, shape);
  }
  std::uint64_t used_bytes() const { return used_bytes_; }

 private:
  std::span<std::byte> memory_;
  std::uint64_t used_bytes_ = 0;
};

Nf4Tensor cut_nf4(Cutter& cutter, const Shape& shape) {
  const Nf4Sizes sizes = nf4_sizes(shape.num_elements());
  Nf4Tensor tensor;
  tensor.codes = cutter.take(DType::kU8, {sizes.num_code_bytes});
  tensor.absmax_codes = cutter.take(DType::kU8, {sizes.num_absmax_codes});
  tensor.absmax_scales = cutter.take(DType::kF32, {sizes.num_absmax_scales});
  tensor.absmax_mean = cutter.take(DType::kF32, {1});
  return tensor;
}

Int8Rows cut_int8(Cutter& cutter, const Shape& shape) {
  Int8Rows rows;
  rows.codes = cutter.take(DType::kI8, shape);
  rows.absmax = cutter.take(DType::kF32, {shape[0]});
  return rows;
}

std::uint64_t packed_bytes(BaseFormat format, const Shape& shape, DType dtype) {
  Cutter counting({});
  switch (format) {
    case BaseFormat::kNf4:
      cut_nf4(counting, shape);
      break;
    case BaseFormat::kInt8:
      cut_int8(counting, shape);
      break;
    case BaseFormat::kPlain:
      counting.take(dtype, shape);
      break;
  }
  return counting.used_bytes();
}

}  // namespace

PackedBlock::PackedBlock(const Architecture& arch, DType dtype)
    : layout_(slice_layout(arch, block_slice(arch, 0))), dtype_(dtype) {
  for (const Parameter& parameter : layout_.parameters()) {
    const std::optional<Projection> projection = projection_of(parameter.param);
    if (!projection) {
      add({.param = parameter.param, .shape = parameter.shape});
      continue;
    }
    std::int64_t num_rows = 0;
    for (const AdapterSite& matrix : arch.adapter.matrices) {
      if (matrix.projection != *projection) continue;
      num_rows += matrix.num_rows;
      add({.param = parameter.param,
           .first_row = matrix.first_row,
           .shape = {matrix.num_rows, parameter.shape[1]},
           .format = arch.adapter.base});
    }
    CHECK(num_rows == parameter.shape[0], "every row is a matrix's");
  }
}

void PackedBlock::add(const Part& part) {
  parts_.push_back(part);
  parts_.back().offset = size_bytes_;
  size_bytes_ += packed_bytes(part.format, part.shape, dtype_);
}

const PackedBlock::Part& PackedBlock::find(Param param, std::int64_t first_row) const {
  const auto found = std::find_if(parts_.begin(), parts_.end(),
                                  [&](const Part& part) { return part.param == param && part.first_row == first_row; });
  CHECK(found != parts_.end(), "a part of the block");
  return *found;
}

TensorView PackedBlock::view(std::span<std::byte> slice, const Part& part) const {
  const TensorView whole = layout_.view(slice, dtype_, part.param);
  const std::uint64_t row_bytes =
      part.shape.rank() == 2 ? static_cast<std::uint64_t>(part.shape[1]) * sluice::size_bytes(dtype_) : 0;
  const std::uint64_t bytes = static_cast<std::uint64_t>(part.shape.num_elements()) * sluice::size_bytes(dtype_);
  return {whole.bytes().subspan(static_cast<std::uint64_t>(part.first_row) * row_bytes, bytes), dtype_, part.shape};
}

Nf4Tensor PackedBlock::nf4(std::span<std::byte> packed, Param param, std::int64_t first_row) const {
  const Part& part = find(param, first_row);
  CHECK(part.format == BaseFormat::kNf4, "a matrix in NF4");
  Cutter cutter(packed.subspan(part.offset));
  return cut_nf4(cutter, part.shape);
}

TensorView PackedBlock::plain(std::span<std::byte> packed, Param param) const {
  const Part& part = find(param, 0);
  CHECK(part.format == BaseFormat::kPlain, "a parameter that stays plain");
  return Cutter(packed.subspan(part.offset)).take(dtype_, part.shape);
}

void PackedBlock::pack(Stream& stream, std::span<std::byte> slice, std::span<std::byte> packed) const {
  CHECK(slice.size() >= slice_bytes() && packed.size() >= size_bytes_, "room for both");
  for (const Part& part : parts_) {
    const Shape& shape = part.shape;
    const TensorView from = view(slice, part);
    Cutter cutter(packed.subspan(part.offset));
    switch (part.format) {
      case BaseFormat::kNf4:
        quantize_nf4(stream, cut_nf4(cutter, shape), from);
        break;
      case BaseFormat::kInt8:
        quantize_int8(stream, cut_int8(cutter, shape), from);
        break;
      case BaseFormat::kPlain:
        stream.copy(cutter.take(dtype_, shape).bytes(), from.bytes());
        break;
    }
  }
}

void PackedBlock::unpack(Stream& stream, std::span<std::byte> packed, std::span<std::byte> slice) const {
  CHECK(slice.size() >= slice_bytes() && packed.size() >= size_bytes_, "room for both");
  for (const Part& part : parts_) {
    const Shape& shape = part.shape;
    const TensorView to = view(slice, part);
    Cutter cutter(packed.subspan(part.offset));
    switch (part.format) {
      case BaseFormat::kNf4:
        dequantize_nf4(stream, {.to = to, .from = cut_nf4(cutter, shape), .num_elements = shape.num_elements()});
        break;
      case BaseFormat::kInt8:
        dequantize_int8(stream, to, cut_int8(cutter, shape));
        break;
      case BaseFormat::kPlain:
        stream.copy(to.bytes(), cutter.take(dtype_, shape).bytes());
        break;
    }
  }
}

bool is_packed(const Architecture& arch, std::size_t slice_idx) {
  return arch.adapter.exists() && arch.adapter.base != BaseFormat::kPlain &&
         slice_id(arch, slice_idx).kind == SliceKind::kBlock;
}

std::uint64_t kept_bytes(const Architecture& arch, std::size_t slice_idx, DType dtype) {
  if (is_packed(arch, slice_idx)) return PackedBlock(arch, dtype).size_bytes();
  return slice_layout(arch, slice_idx).size_bytes(dtype);
}

}  // namespace sluice
