// SPDX-License-Identifier: Apache-2.0
// How a block's adapter lies in its one run, and what of a slice is trained: the slice itself, or in its stead the
// adapter. A projection has A of all its sites, one below the other, so that one product takes x to all of them; then B
// of each. Always f32.
#pragma once

#include <cstdint>
#include <vector>

#include "model/adapter.h"
#include "model/slice_layout.h"

namespace sluice {

// Of a projection that has sites.
struct AdapterPart {
  Projection projection = Projection::kQkv;
  std::int64_t in = 0;
  std::int64_t out = 0;            // of the whole projection
  std::vector<AdapterSite> sites;  // site i has rows [i * rank, (i + 1) * rank) of A
  Parameter a;                     // (sites * rank, in)
  std::vector<Parameter> b;        // (site's rows, rank)

  std::int64_t num_columns() const { return a.shape[0]; }  // of x Aᵀ
};

class AdapterLayout {
 public:
  explicit AdapterLayout(const Architecture& arch);

  const SliceLayout& slice() const { return slice_; }
  const std::vector<AdapterPart>& parts() const { return parts_; }
  static TensorView view(std::span<std::byte> adapter, const Parameter& parameter);

 private:
  SliceLayout slice_;
  std::vector<AdapterPart> parts_;
};

// What of a slice is trained; without parameters where nothing is.
SliceLayout trained_layout(const Architecture& arch, std::size_t slice_idx);
bool is_trained(const Architecture& arch, std::size_t slice_idx);
// The dtype that trained weights have where the model's are `weights`.
DType trained_dtype(const Architecture& arch, DType weights);
std::uint64_t count_trained_parameters(const Architecture& arch);

}  // namespace sluice
