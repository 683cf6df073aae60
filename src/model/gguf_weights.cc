// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_weights.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "format/json_text.h"
#include "model/convert.h"

namespace sluice {
namespace {

constexpr std::uint64_t kGgufPieceBytes = 16 * kMiB;  // of a tensor's elements as f32
constexpr std::int64_t kGgufRowsAnItem = 64;

// Where in the checkpoint the row is that GGUF has as `row`: the two halves of each head, taken in turns.
std::int64_t source_row(GgufChange change, std::int64_t row, std::int64_t head_dim) {
  if (change != GgufChange::kPairRows) return row;
  const std::int64_t in_head = row % head_dim;
  return row - in_head + (in_head % 2) * (head_dim / 2) + in_head / 2;
}

class WeightStream {
 public:
  WeightStream(const Checkpoint& checkpoint, const Architecture& arch, WorkerTeam& team)
      : checkpoint_(checkpoint), head_dim_(arch.head_dim), team_(team) {}

  // Gives the tensor's bytes to `take`, in order.
  void run(const GgufWeight& weight, const std::function<void(std::span<const std::byte>)>& take) {
    const GgufTensor& tensor = weight.tensor;
    if (weight.source.empty()) {
      CHECK(tensor.encoding == GgufEncoding::kF32, "what is made is f32");
      return take(std::as_bytes(std::span(weight.made)));
    }
    const TensorInfo& source = checkpoint_.require(weight.source);
    const DType dtype = checkpoint_.require_dtype(source);
    const std::int64_t num_rows = tensor.shape[0];
    const std::int64_t width = tensor.shape.rank() > 1 ? tensor.shape[1] : 1;
    // Rows change places within a head only, so that pieces are whole heads.
    const std::int64_t step = weight.change == GgufChange::kPairRows ? head_dim_ : 1;
    const auto wanted_rows =
        static_cast<std::int64_t>(kGgufPieceBytes / (static_cast<std::uint64_t>(width) * sizeof(float)));
    const std::int64_t piece_rows = std::max<std::int64_t>(wanted_rows / step, 1) * step;
    for (std::int64_t first = 0; first < num_rows; first += piece_rows) {
      const std::int64_t count = std::min(piece_rows, num_rows - first);
      const std::uint64_t row_bytes = static_cast<std::uint64_t>(width) * size_bytes(dtype);
      read_.resize(static_cast<std::uint64_t>(count) * row_bytes);
      checkpoint_.read(source, static_cast<std::uint64_t>(first) * row_bytes, read_);
      encode({.dtype = dtype, .count = count, .width = width}, weight);
      take(encoded_);
    }
  }

 private:
  struct Rows {
    DType dtype = DType::kF32;
    std::int64_t count = 0;
    std::int64_t width = 0;
  };

  void encode(const Rows& rows, const GgufWeight& weight) {
    const auto width = static_cast<std::size_t>(rows.width);
    const std::size_t from_bytes = width * size_bytes(rows.dtype);
    const std::size_t to_bytes = encoded_bytes(weight.tensor.encoding, width);
    encoded_.resize(static_cast<std::size_t>(rows.count) * to_bytes);
    std::atomic<bool> all_held = true;
    team_.for_each((rows.count + kGgufRowsAnItem - 1) / kGgufRowsAnItem, [&](std::int64_t item_idx, std::size_t) {
      std::vector<float> values(width);
      const std::int64_t end = std::min(rows.count, (item_idx + 1) * kGgufRowsAnItem);
      for (std::int64_t row = item_idx * kGgufRowsAnItem; row < end; ++row) {
        const auto from = static_cast<std::size_t>(source_row(weight.change, row, head_dim_));
        convert_elements(std::as_writable_bytes(std::span(values)), DType::kF32,
                         std::span(read_).subspan(from * from_bytes, from_bytes), rows.dtype);
        if (weight.change == GgufChange::kAddOne) {
          for (float& value : values) value += 1;
        }
        const auto to = std::span(encoded_).subspan(static_cast<std::size_t>(row) * to_bytes, to_bytes);
        if (encode_elements(to, weight.tensor.encoding, values) == Encoded::kNotHeld) all_held = false;
      }
    });
    if (!all_held) {
      throw InvalidInput(
          fmt::format("tensor {} has values that the type asked for cannot hold; export it as bf16 or f32",
                      in_quotes(weight.source)));
    }
  }

  const Checkpoint& checkpoint_;
  std::int64_t head_dim_;
  WorkerTeam& team_;
  std::vector<std::byte> read_;
  std::vector<std::byte> encoded_;
};

}  // namespace

void require_gguf_sources(const Checkpoint& checkpoint, const GgufLayout& layout) {
  for (const GgufWeight& weight : layout.weights) {
    if (weight.source.empty()) continue;
    const TensorInfo& tensor = checkpoint.require(weight.source);
    if (tensor.shape != weight.tensor.shape) {
      throw FormatError(fmt::format("tensor {} of '{}' has the shape {}; by config.json it is {}",
                                    in_quotes(tensor.name), checkpoint.shard_path(tensor), tensor.shape.text(),
                                    weight.tensor.shape.text()));
    }
    if (!can_convert(DType::kF32, checkpoint.require_dtype(tensor))) {
      throw FormatError(fmt::format("tensor {} of '{}' is {}; only F32, F16 and BF16 can be exported",
                                    in_quotes(tensor.name), checkpoint.shard_path(tensor), tensor.dtype_text));
    }
  }
}

void write_gguf_weights(const Checkpoint& checkpoint, const GgufLayout& layout, const Architecture& arch,
                        GgufWriter& writer, WorkerTeam& team, const ProgressSink& progress) {
  std::uint64_t total_bytes = 0;
  for (const GgufWeight& weight : layout.weights) total_bytes += weight.tensor.size_bytes();
  std::uint64_t done_bytes = 0;
  WeightStream stream(checkpoint, arch, team);
  for (const GgufWeight& weight : layout.weights) {
    stream.run(weight, [&](std::span<const std::byte> bytes) {
      writer.write(bytes);
      done_bytes += bytes.size();
      progress.report({.what = "exporting", .done = done_bytes, .total = total_bytes});
      if (progress.interrupted()) throw Cancelled("interrupted; what was written has been removed");
    });
  }
}

}  // namespace sluice
