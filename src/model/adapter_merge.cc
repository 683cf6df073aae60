// SPDX-License-Identifier: Apache-2.0
#include "model/adapter_merge.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "format/json_text.h"
#include "model/convert.h"
#include "tensor/finite_numbers.h"

namespace sluice {
namespace {

constexpr std::uint64_t kMergedPieceBytes = 16 * kMiB;  // of a weight, held at once
constexpr std::int64_t kMergedRowsAnItem = 16;

// The two matrices as W gains them: rows (rows, rank), columns (rank, columns).
struct Product {
  std::int64_t rank = 0;
  std::int64_t num_columns = 0;
  float scale = 0;
  std::vector<float> rows;
  std::vector<float> columns;
};

enum class Transposed : std::uint8_t { kNo, kYes };

std::vector<float> read_matrix(const Checkpoint& tensors, const TensorInfo& tensor, Transposed transposed) {
  std::vector<std::byte> bytes(tensor.size_bytes);
  tensors.read(tensor, 0, bytes);
  std::vector<float> matrix(static_cast<std::size_t>(tensor.shape.num_elements()));
  const bool converted =
      convert_elements(std::as_writable_bytes(std::span(matrix)), DType::kF32, bytes, tensors.require_dtype(tensor));
  CHECK(converted, "the type was looked at before");
  if (transposed == Transposed::kNo) return matrix;
  const auto num_rows = static_cast<std::size_t>(tensor.shape[0]);
  const auto num_columns = static_cast<std::size_t>(tensor.shape[1]);
  std::vector<float> turned(matrix.size());
  for (std::size_t row = 0; row < num_rows; ++row) {
    for (std::size_t column = 0; column < num_columns; ++column) {
      turned[column * num_rows + row] = matrix[row * num_columns + column];
    }
  }
  return turned;
}

Shape shape_of_product(const AdapterModule& module, WeightLayout layout) {
  const std::int64_t in = module.a.shape[1];
  const std::int64_t out = module.b.shape[0];
  return layout == WeightLayout::kInOut ? Shape({in, out}) : Shape({out, in});
}

// An embedding's weight is (rows, columns) = (in, out) of its matrices. For the rest the config tells; where only the
// other layout fits, it is that one: PEFT goes by the kind of each layer, and the flag is that of the last.
WeightLayout layout_of(const AdapterModule& module, const AdapterConfig& config, const Shape& weight) {
  if (module.kind == AdapterModuleKind::kEmbedding) return WeightLayout::kInOut;
  const WeightLayout other = config.layout == WeightLayout::kInOut ? WeightLayout::kOutIn : WeightLayout::kInOut;
  const bool fits = shape_of_product(module, config.layout) == weight;
  return !fits && shape_of_product(module, other) == weight ? other : config.layout;
}

Product read_product(const AdapterFolder& adapter, const AdapterModule& module, const Shape& weight) {
  Product product{.rank = module.rank(), .num_columns = weight[1], .scale = static_cast<float>(module.scale)};
  const Checkpoint& tensors = adapter.tensors();
  if (layout_of(module, adapter.config(), weight) == WeightLayout::kOutIn) {
    product.rows = read_matrix(tensors, module.b, Transposed::kNo);
    product.columns = read_matrix(tensors, module.a, Transposed::kNo);
  } else {
    product.rows = read_matrix(tensors, module.a, Transposed::kYes);
    product.columns = read_matrix(tensors, module.b, Transposed::kYes);
  }
  return product;
}

constexpr std::int64_t kLanes = 16;

// sums[j] = row · column j, added up in the order of the rank. Columns go in blocks whose sums stay in registers.
void multiply_row(const Product& product, std::int64_t row_idx, std::span<float> sums) {
  const float* const row = product.rows.data() + row_idx * product.rank;
  const std::int64_t num_blocked = product.num_columns / kLanes * kLanes;
  for (std::int64_t first = 0; first < num_blocked; first += kLanes) {
    std::array<float, kLanes> block{};
    for (std::int64_t k = 0; k < product.rank; ++k) {
      const float* const columns = product.columns.data() + k * product.num_columns + first;
      for (std::size_t lane = 0; lane < kLanes; ++lane) block[lane] += row[k] * columns[lane];
    }
    std::copy(block.begin(), block.end(), sums.begin() + first);
  }
  for (std::int64_t column = num_blocked; column < product.num_columns; ++column) {
    float sum = 0;
    for (std::int64_t k = 0; k < product.rank; ++k) {
      sum += row[k] * product.columns[static_cast<std::size_t>(k * product.num_columns + column)];
    }
    sums[static_cast<std::size_t>(column)] = sum;
  }
}

struct Rows {
  std::span<std::byte> bytes;
  DType dtype = DType::kF32;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

void add_product(const Product& product, const Rows& rows, WorkerTeam& team) {
  const auto width = static_cast<std::size_t>(product.num_columns);
  const std::size_t row_bytes = width * size_bytes(rows.dtype);
  team.for_each((rows.count + kMergedRowsAnItem - 1) / kMergedRowsAnItem, [&](std::int64_t item_idx, std::size_t) {
    std::vector<float> sums(width);
    std::vector<float> weights(width);
    const std::span<std::byte> weight_bytes = std::as_writable_bytes(std::span(weights));
    const std::int64_t end = std::min(rows.count, (item_idx + 1) * kMergedRowsAnItem);
    for (std::int64_t row = item_idx * kMergedRowsAnItem; row < end; ++row) {
      const auto bytes = rows.bytes.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes);
      multiply_row(product, rows.first + row, sums);
      convert_elements(weight_bytes, DType::kF32, bytes, rows.dtype);
      for (std::size_t j = 0; j < width; ++j) weights[j] += product.scale * sums[j];
      convert_elements(bytes, rows.dtype, weight_bytes, DType::kF32);
    }
  });
}

}  // namespace

AdapterMerge::AdapterMerge(const Checkpoint& base, const AdapterFolder& adapter) : base_(base), adapter_(adapter) {
  for (const TensorInfo& tensor : base.tensors()) weights_.push_back({&tensor, base.require_dtype(tensor)});
  std::sort(weights_.begin(), weights_.end(), [](const Weight& a, const Weight& b) {
    return std::pair(a.base->shard_idx, a.base->offset_bytes) < std::pair(b.base->shard_idx, b.base->offset_bytes);
  });
  const auto take_once = [](const auto*& place, const auto& part) {
    if (place != nullptr) {
      throw FormatError(fmt::format("the adapter changes one tensor of the base twice, as {} and as {}",
                                    in_quotes(place->name), in_quotes(part.name)));
    }
    place = &part;
  };
  for (const ReplacedTensor& replaced : adapter.replaced()) {
    take_once(weights_[find_weight(replaced.name)].replacement, replaced.tensor);
  }
  for (const AdapterModule& module : adapter.modules()) {
    take_once(weights_[find_weight(module.name + ".weight")].module, module);
  }
  for (const Weight& weight : weights_) require_fit(weight);
  for (const Weight& weight : weights_) {
    if (weight.replacement != nullptr) require_finite(*weight.replacement);
    if (weight.module == nullptr) continue;
    require_finite(weight.module->a);
    require_finite(weight.module->b);
  }
}

// Reads the tensor before the merge, which reads it again: an adapter is small, and nothing must be written for a
// damaged one.
void AdapterMerge::require_finite(const TensorInfo& tensor) const {
  const Checkpoint& tensors = adapter_.tensors();
  const DType dtype = tensors.require_dtype(tensor);
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < tensor.size_bytes; at += piece.size()) {
    piece.resize(std::min(tensor.size_bytes - at, kMergedPieceBytes));
    tensors.read(tensor, at, piece);
    if (all_finite(piece, dtype)) continue;
    throw InvalidInput(fmt::format(
        "tensor {} of the adapter '{}' has numbers that are not finite (NaN or infinite): its training went "
        "wrong, or the file is damaged; merge an earlier checkpoint of it",
        in_quotes(tensor.name), tensors.path()));
  }
}

// Checkpoints of bare models lack the first part of their modules' names: GPT-2's "transformer".
std::size_t AdapterMerge::find_weight(const std::string& name) const {
  const TensorInfo* tensor = base_.find(name);
  const std::size_t dot = name.find('.');
  if (tensor == nullptr && dot != std::string::npos) tensor = base_.find(name.substr(dot + 1));
  if (tensor == nullptr) {
    throw InvalidInput(
        fmt::format("the adapter '{}' changes {}, and the base '{}' has no such tensor; is it an adapter of another "
                    "model?",
                    adapter_.tensors().path(), in_quotes(name), base_.path()));
  }
  const auto found =
      std::find_if(weights_.begin(), weights_.end(), [tensor](const Weight& weight) { return weight.base == tensor; });
  return static_cast<std::size_t>(found - weights_.begin());
}

void AdapterMerge::require_fit(const Weight& weight) const {
  const auto fail = [&](const TensorInfo& tensor, const Shape& shape) {
    throw InvalidInput(
        fmt::format("the adapter's {} makes a tensor of the shape {}, and the base's {} is {}; is it an adapter of "
                    "another model?",
                    in_quotes(tensor.name), shape.text(), in_quotes(weight.base->name), weight.base->shape.text()));
  };
  const auto require_float = [&](const Checkpoint& tensors, const TensorInfo& tensor) {
    if (can_convert(DType::kF32, tensors.require_dtype(tensor))) return;
    throw InvalidInput(fmt::format("tensor {} of '{}' is {}; only F32, F16 and BF16 can be merged",
                                   in_quotes(tensor.name), tensors.path(), tensor.dtype_text));
  };
  if (weight.replacement != nullptr) {
    if (weight.replacement->shape != weight.base->shape) fail(*weight.replacement, weight.replacement->shape);
    require_float(base_, *weight.base);
    require_float(adapter_.tensors(), *weight.replacement);
  }
  if (weight.module != nullptr) {
    const WeightLayout layout = layout_of(*weight.module, adapter_.config(), weight.base->shape);
    const Shape shape = shape_of_product(*weight.module, layout);
    if (shape != weight.base->shape) {
      const bool rows_differ = weight.base->shape.rank() == 2 && shape[0] != weight.base->shape[0];
      fail(rows_differ == (layout == WeightLayout::kOutIn) ? weight.module->b : weight.module->a, shape);
    }
    require_float(base_, *weight.base);
    require_float(adapter_.tensors(), weight.module->a);
    require_float(adapter_.tensors(), weight.module->b);
  }
}

std::vector<PlannedTensor> AdapterMerge::planned_tensors() const {
  std::vector<PlannedTensor> planned;
  planned.reserve(weights_.size());
  for (const Weight& weight : weights_) planned.push_back({weight.base->name, weight.dtype, weight.base->shape});
  return planned;
}

void AdapterMerge::write(CheckpointWriter& writer, WorkerTeam& team, const ProgressSink& progress) const {
  std::uint64_t done_bytes = 0;
  const auto wrote = [&](std::uint64_t bytes) {
    done_bytes += bytes;
    progress.report({.what = "merging", .done = done_bytes, .total = base_.total_bytes()});
    if (progress.interrupted()) throw Cancelled("interrupted; what was written has been removed");
  };
  for (const Weight& weight : weights_) write_weight(weight, writer, team, wrote);
}

void AdapterMerge::write_weight(const Weight& weight, CheckpointWriter& writer, WorkerTeam& team,
                                const std::function<void(std::uint64_t)>& wrote) const {
  const bool replaced = weight.replacement != nullptr;
  const Checkpoint& source = replaced ? adapter_.tensors() : base_;
  const TensorInfo& tensor = replaced ? *weight.replacement : *weight.base;
  const DType source_dtype = replaced ? source.require_dtype(tensor) : weight.dtype;
  // What is only copied may be cut anywhere; a row is then one element.
  const std::int64_t row_elements = weight.module != nullptr ? tensor.shape[1] : 1;
  const std::int64_t num_rows = row_elements == 0 ? 0 : tensor.shape.num_elements() / row_elements;
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(row_elements) * size_bytes(weight.dtype);
  const std::uint64_t source_row_bytes = static_cast<std::uint64_t>(row_elements) * size_bytes(source_dtype);
  const auto piece_rows = static_cast<std::int64_t>(std::max<std::uint64_t>(kMergedPieceBytes / source_row_bytes, 1));

  Product product;
  if (weight.module != nullptr) product = read_product(adapter_, *weight.module, weight.base->shape);
  std::vector<std::byte> read;
  std::vector<std::byte> converted;
  for (std::int64_t first = 0; first < num_rows; first += piece_rows) {
    const std::int64_t count = std::min(piece_rows, num_rows - first);
    read.resize(static_cast<std::uint64_t>(count) * source_row_bytes);
    source.read(tensor, static_cast<std::uint64_t>(first) * source_row_bytes, read);
    std::span<std::byte> bytes(read);
    if (source_dtype != weight.dtype) {
      converted.resize(static_cast<std::uint64_t>(count) * row_bytes);
      convert_elements(converted, weight.dtype, read, source_dtype);
      bytes = converted;
    }
    if (weight.module != nullptr) {
      add_product(product, {.bytes = bytes, .dtype = weight.dtype, .first = first, .count = count}, team);
    }
    writer.write(bytes);
    wrote(bytes.size());
  }
}

}  // namespace sluice
