// SPDX-License-Identifier: Apache-2.0
#include "model/stored_nf4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "format/nf4_state.h"
#include "ops/dynamic_map.h"

namespace sluice {
namespace {

constexpr std::array<float, 256> kAbsmaxValues = dynamic_map(CodeRange::kSigned);

constexpr std::int64_t kNf4PieceElements = 256 * kNf4Block * kNf4AbsmaxBlock;  // whole blocks of scales

std::uint64_t bytes_of(std::int64_t elements, DType dtype) {
  return static_cast<std::uint64_t>(elements) * size_bytes(dtype);
}

const TensorInfo& require_tensor(const Checkpoint& checkpoint, const std::string& name, DType dtype,
                                 std::int64_t num_elements) {
  const TensorInfo& tensor = checkpoint.require(name);
  if (tensor.dtype != dtype || tensor.shape.num_elements() != num_elements) {
    throw FormatError(fmt::format("{}: tensor {} is {} of {}, but a matrix in NF4 has {} {} there",
                                  checkpoint.shard_path(tensor), name, tensor.dtype_text, tensor.shape.text(),
                                  num_elements, sluice::name(dtype)));
  }
  return tensor;
}

// Values that codes stand for: another table would be other numbers.
void require_values(const Checkpoint& checkpoint, const std::string& name, std::span<const float> wanted) {
  const TensorInfo& tensor = require_tensor(checkpoint, name, DType::kF32, static_cast<std::int64_t>(wanted.size()));
  std::vector<float> found(wanted.size());
  checkpoint.read(tensor, 0, std::as_writable_bytes(std::span(found)));
  for (std::size_t code = 0; code < wanted.size(); ++code) {
    if (std::abs(found[code] - wanted[code]) <= 1e-6F) continue;
    throw InvalidInput(fmt::format("{}: {} has {} for code {}, where NF4 has {}; Sluice reads NF4 alone",
                                   checkpoint.shard_path(tensor), name, found[code], code, wanted[code]));
  }
}

Nf4State read_state(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo& tensor = checkpoint.require(name);
  const std::string where = fmt::format("{}: {}", checkpoint.shard_path(tensor), name);
  if (tensor.dtype != DType::kU8 || tensor.size_bytes > kMaxNf4StateBytes) {
    throw FormatError(fmt::format("{}: expected a short JSON text in U8", where));
  }
  std::string text(tensor.size_bytes, ' ');
  checkpoint.read(tensor, 0, std::as_writable_bytes(std::span(text)));
  return parse_nf4_state(text, where);
}

}  // namespace

std::vector<std::string> stored_nf4_names(const std::string& weight) {
  const Nf4Names names = nf4_names(weight);
  return {weight, names.absmax, names.absmax_scales, names.absmax_values, names.values, names.state};
}

void require_stored_nf4(const Checkpoint& checkpoint, const TensorPlacement& matrix) {
  const Nf4Names names = nf4_names(matrix.name);
  const TensorInfo& weight = checkpoint.require(matrix.name);
  if (checkpoint.find(names.state) == nullptr) {
    throw InvalidInput(fmt::format(
        "{}: tensor {} is not in NF4, though config.json says that the checkpoint is; Sluice reads checkpoints that "
        "have every matrix of their blocks in NF4",
        checkpoint.shard_path(weight), matrix.name));
  }
  const Nf4State state = read_state(checkpoint, names.state);
  if (state.shape != matrix.shape) {
    throw FormatError(fmt::format("{}: tensor {} has shape {}, but config.json asks for {}",
                                  checkpoint.shard_path(weight), names.state, state.shape.text(), matrix.shape.text()));
  }
  const Nf4Sizes sizes = nf4_sizes(matrix.shape.num_elements());
  require_tensor(checkpoint, matrix.name, DType::kU8, sizes.num_code_bytes);
  require_tensor(checkpoint, names.absmax, DType::kU8, sizes.num_absmax_codes);
  require_tensor(checkpoint, names.absmax_scales, DType::kF32, sizes.num_absmax_scales);
  require_values(checkpoint, names.absmax_values, kAbsmaxValues);
  require_values(checkpoint, names.values, kNf4Values);
}

void read_stored_nf4(const Checkpoint& checkpoint, const std::string& weight, const Nf4Tensor& into) {
  const Nf4Names names = nf4_names(weight);
  checkpoint.read(checkpoint.require(weight), 0, into.codes.bytes());
  checkpoint.read(checkpoint.require(names.absmax), 0, into.absmax_codes.bytes());
  checkpoint.read(checkpoint.require(names.absmax_scales), 0, into.absmax_scales.bytes());
  into.absmax_mean.as<float>()[0] = static_cast<float>(read_state(checkpoint, names.state).absmax_mean);
}

void unpack_stored_nf4(const Checkpoint& checkpoint, const std::string& weight, const TensorView& into) {
  const Nf4Names names = nf4_names(weight);
  const TensorInfo& codes = checkpoint.require(weight);
  const TensorInfo& absmax = checkpoint.require(names.absmax);
  const TensorInfo& scales = checkpoint.require(names.absmax_scales);
  const auto mean = static_cast<float>(read_state(checkpoint, names.state).absmax_mean);
  CpuDevice device(Device::kAlignment, 1);
  const auto stream = device.make_stream("unpacking");
  const std::int64_t total = into.shape().num_elements();
  const std::uint64_t element_bytes = size_bytes(into.dtype());
  for (std::int64_t first = 0; first < total; first += kNf4PieceElements) {
    const Shape piece{std::min(kNf4PieceElements, total - first)};
    const Nf4Memory memory(piece);
    const Nf4Tensor& tensor = memory.tensor();
    checkpoint.read(codes, bytes_of(first / 2, DType::kU8), tensor.codes.bytes());
    checkpoint.read(absmax, bytes_of(first / kNf4Block, DType::kU8), tensor.absmax_codes.bytes());
    checkpoint.read(scales, bytes_of(first / kNf4Block / kNf4AbsmaxBlock, DType::kF32), tensor.absmax_scales.bytes());
    tensor.absmax_mean.as<float>()[0] = mean;
    const std::span<std::byte> to =
        into.bytes().subspan(bytes_of(first, into.dtype()), static_cast<std::uint64_t>(piece[0]) * element_bytes);
    dequantize_nf4(*stream, {.to = TensorView(to, into.dtype(), piece), .from = tensor, .num_elements = piece[0]});
    stream->synchronize();
  }
}

std::vector<PlannedTensor> plan_stored_nf4(const std::string& weight, const Shape& shape) {
  const Nf4Sizes sizes = nf4_sizes(shape.num_elements());
  const Nf4Names names = nf4_names(weight);
  return {{.name = weight, .dtype = DType::kU8, .shape = {sizes.num_code_bytes, 1}},
          {.name = names.absmax, .dtype = DType::kU8, .shape = {sizes.num_absmax_codes}},
          {.name = names.absmax_scales, .dtype = DType::kF32, .shape = {sizes.num_absmax_scales}},
          {.name = names.absmax_values, .dtype = DType::kF32, .shape = {256}},
          {.name = names.values, .dtype = DType::kF32, .shape = {16}},
          {.name = names.state, .dtype = DType::kU8, .shape = {static_cast<std::int64_t>(kNf4StateBytes)}}};
}

void write_stored_nf4(CheckpointWriter& writer, const Nf4Tensor& matrix, const Shape& shape, DType dtype) {
  writer.write(matrix.codes.bytes());
  writer.write(matrix.absmax_codes.bytes());
  writer.write(matrix.absmax_scales.bytes());
  writer.write(std::as_bytes(std::span(kAbsmaxValues)));
  writer.write(std::as_bytes(std::span(kNf4Values)));
  const double mean = static_cast<double>(matrix.absmax_mean.as<float>()[0]);
  const std::string state = make_nf4_state({.shape = shape, .absmax_mean = mean}, dtype);
  writer.write(std::as_bytes(std::span(state)));
}

Nf4Memory::Nf4Memory(const Shape& shape) {
  const Nf4Sizes sizes = nf4_sizes(shape.num_elements());
  const auto take = [](std::vector<std::byte>& memory, DType dtype, std::int64_t count) {
    memory.resize(bytes_of(count, dtype));
    return TensorView(memory, dtype, {count});
  };
  tensor_ = {.codes = take(codes_, DType::kU8, sizes.num_code_bytes),
             .absmax_codes = take(absmax_codes_, DType::kU8, sizes.num_absmax_codes),
             .absmax_scales = take(absmax_scales_, DType::kF32, sizes.num_absmax_scales),
             .absmax_mean = take(absmax_mean_, DType::kF32, 1)};
}

}  // namespace sluice
