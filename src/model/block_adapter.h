// SPDX-License-Identifier: Apache-2.0
// A block's adapter at work. Its matrices are rounded to the activations' dtype once a pass and stand packed in the
// workspace: A of a projection's sites one below the other, B of each in rows and columns of its own, the scale in it.
// So a projection costs two narrow products more, however many sites it has. Puts work on the stream and returns.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "device/device.h"
#include "model/adapter_layout.h"
#include "model/workspace.h"
#include "ops/low_rank.h"

namespace sluice {

enum class Keep : std::uint8_t { kForForward, kForBackward };

// What of an adapter's pass the block does not know.
struct AdapterPass {
  std::span<std::byte> weights;    // f32, laid out as AdapterLayout says
  std::uint64_t dropout_seed = 0;  // of this layer, micro-batch and step
  double dropout = 0;
};

class BlockAdapter {
 public:
  // Takes its memory; does nothing where the architecture has no adapter.
  BlockAdapter(const Architecture& arch, std::int64_t num_tokens, DType dtype, Keep keep, Workspace& workspace);
  BlockAdapter(BlockAdapter&&) = default;
  BlockAdapter& operator=(BlockAdapter&&) = delete;

  // Before all else.
  void pack(Stream& stream, const AdapterPass& pass);
  // y += what the projection's adapter makes of x, whose first row is the batch's `first_token`.
  void add(Stream& stream, Projection projection, TensorView x, TensorView y, std::int64_t first_token) const;
  // Adds to the adapter's gradients, f32; and to dx, unless it is default-constructed.
  void backward(Stream& stream, Projection projection, std::span<std::byte> gradients, TensorView x, TensorView dy,
                TensorView dx, std::int64_t first_token) const;

 private:
  struct Packed {
    const AdapterPart* part = nullptr;  // null: the projection has no site
    TensorView a;                       // (columns, in)
    TensorView b;                       // (out, columns)
  };

  const Packed& packed(Projection projection) const { return packed_[static_cast<std::size_t>(projection)]; }
  std::vector<LowRankBlock> blocks(const AdapterPart& part, std::span<std::byte> adapter) const;
  // x as A reads it.
  TensorView input(Stream& stream, const Packed& packed, TensorView x, std::int64_t first_token) const;
  void drop(Stream& stream, Projection projection, TensorView from, TensorView to, std::int64_t first_token) const;

  AdapterLayout layout_;
  std::int64_t rank_ = 0;
  float scale_ = 1;
  std::array<Packed, kProjections.size()> packed_;
  AdapterPass pass_;
  TensorView inner_;    // (tokens * columns): x Aᵀ
  TensorView d_inner_;  // (tokens * columns)
  TensorView d_b_;      // (out * columns) f32
  TensorView dropped_;  // (tokens * in), where anything is left out
};

}  // namespace sluice
