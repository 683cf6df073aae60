// SPDX-License-Identifier: Apache-2.0
#include "model/random_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/bf16.h"
#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "device/cpu/cpu_device.h"
#include "model/stored_nf4.h"
#include "model/tensor_placement.h"

namespace sluice {
namespace {

constexpr std::uint64_t kPieceElements = 4 << 20;   // held in memory at once
constexpr std::uint64_t kBlockElements = 64 << 10;  // from one generator

enum class Fill : std::uint8_t { kRandom, kOne, kZero };

Fill fill_of(const Architecture& arch, Param param) {
  switch (param) {
    case Param::kAttentionNorm:
    case Param::kQNorm:
    case Param::kKNorm:
    case Param::kNormAfterAttention:
    case Param::kMlpNorm:
    case Param::kNormAfterMlp:
    case Param::kFinalNorm:
      return arch.norm == NormKind::kRmsPlusOne ? Fill::kZero : Fill::kOne;
    case Param::kAttentionNormBias:
    case Param::kQkvBias:
    case Param::kOutBias:
    case Param::kMlpNormBias:
    case Param::kUpBias:
    case Param::kDownBias:
    case Param::kFinalNormBias:
      return Fill::kZero;
    case Param::kEmbedding:
    case Param::kPositions:
    case Param::kQkv:
    case Param::kOut:
    case Param::kUp:
    case Param::kDown:
    case Param::kHead:
    case Param::kAdapterA:
    case Param::kAdapterB:
      return Fill::kRandom;
  }
  return Fill::kRandom;
}

// The sum of four uniform numbers: close to normal, one draw an element.
float near_normal(Random& random, float scale) {
  const std::uint64_t bits = random.next();
  const auto sum =
      static_cast<std::int32_t>((bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48));
  return static_cast<float>(sum - 131070) * scale;
}

class Filler {
 public:
  Filler(const RandomWeights& weights, WorkerTeam& team)
      : weights_(weights), team_(team), scale_(static_cast<float>(weights.spread * std::sqrt(3.0) / 65536.0)) {
    CHECK(weights.dtype == DType::kBF16 || weights.dtype == DType::kF32, "weights are bf16 or f32");
    piece_.resize(kPieceElements * size_bytes(weights.dtype));
  }

  // A matrix in NF4, which is made whole.
  void write_packed(CheckpointWriter& writer, std::uint64_t tensor_seed, const Shape& shape) {
    const auto num_elements = static_cast<std::uint64_t>(shape.num_elements());
    std::vector<std::byte> whole(num_elements * size_bytes(weights_.dtype));
    for (std::uint64_t first = 0; first < num_elements; first += kPieceElements) {
      const auto bytes = make(Fill::kRandom, tensor_seed, first, std::min(kPieceElements, num_elements - first));
      std::copy(bytes.begin(), bytes.end(),
                whole.begin() + static_cast<std::ptrdiff_t>(first * size_bytes(weights_.dtype)));
    }
    const Nf4Memory packed(shape);
    if (!cpu_) {
      cpu_.emplace(Device::kAlignment, team_.num_threads());
      stream_ = cpu_->make_stream("packing");
    }
    quantize_nf4(*stream_, packed.tensor(), TensorView(whole, weights_.dtype, shape));
    stream_->synchronize();
    write_stored_nf4(writer, packed.tensor(), shape, weights_.dtype);
  }

  // Elements [first, first + count) of a tensor.
  std::span<const std::byte> make(Fill fill, std::uint64_t tensor_seed, std::uint64_t first, std::uint64_t count) {
    CHECK(first % kBlockElements == 0 && count <= kPieceElements, "pieces are whole blocks but for the last");
    const std::uint64_t num_blocks = div_ceil(count, kBlockElements);
    team_.for_each(static_cast<std::int64_t>(num_blocks), [&](std::int64_t block_idx, std::size_t) {
      const std::uint64_t begin = static_cast<std::uint64_t>(block_idx) * kBlockElements;
      const std::uint64_t end = std::min(count, begin + kBlockElements);
      Random random(Random(tensor_seed ^ (first / kBlockElements + static_cast<std::uint64_t>(block_idx))).next());
      for (std::uint64_t idx = begin; idx < end; ++idx) {
        put(idx, fill == Fill::kRandom ? near_normal(random, scale_) : fill == Fill::kOne ? 1.0F : 0.0F);
      }
    });
    return std::span(piece_).first(count * size_bytes(weights_.dtype));
  }

 private:
  void put(std::uint64_t idx, float value) {
    if (weights_.dtype == DType::kF32) {
      std::memcpy(piece_.data() + idx * sizeof value, &value, sizeof value);
    } else {
      const BF16 rounded = to_bf16(value);
      std::memcpy(piece_.data() + idx * sizeof rounded, &rounded, sizeof rounded);
    }
  }

  RandomWeights weights_;
  WorkerTeam& team_;
  float scale_;
  std::vector<std::byte> piece_;
  std::optional<CpuDevice> cpu_;  // where matrices are packed
  std::unique_ptr<Stream> stream_;
};

}  // namespace

void write_random_weights(CheckpointWriter& writer, const ModelDescription& model, const RandomWeights& weights,
                          WorkerTeam& team, const ProgressSink& progress) {
  Filler filler(weights, team);
  Random seeds(weights.seed);
  const std::uint64_t total_bytes = count_parameters(model.arch) * size_bytes(weights.dtype);
  std::uint64_t done_bytes = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(model.arch); ++slice_idx) {
    for (const TensorPlacement& placement : place_tensors(model, slice_idx)) {
      if (!begins_here(placement)) continue;  // it was made whole
      const std::uint64_t tensor_seed = seeds.next();
      const Fill fill = fill_of(model.arch, placement.param);
      const auto num_elements = static_cast<std::uint64_t>(placement.shape.num_elements());
      if (model.stored == BaseFormat::kNf4 && is_block_matrix(placement.param)) {
        if (progress.interrupted()) {
          throw Cancelled("interrupted; what was written has been removed");
        }
        filler.write_packed(writer, tensor_seed, placement.shape);
        done_bytes += num_elements * size_bytes(weights.dtype);
        progress.report({.what = "weights", .done = done_bytes, .total = total_bytes});
        continue;
      }
      for (std::uint64_t first = 0; first < num_elements; first += kPieceElements) {
        if (progress.interrupted()) {
          throw Cancelled("interrupted; what was written has been removed");
        }
        const auto bytes = filler.make(fill, tensor_seed, first, std::min(kPieceElements, num_elements - first));
        writer.write(bytes);
        done_bytes += bytes.size();
        progress.report({.what = "weights", .done = done_bytes, .total = total_bytes});
      }
    }
  }
}

}  // namespace sluice
