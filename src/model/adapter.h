// SPDX-License-Identifier: Apache-2.0
// Low-rank matrices beside a block's projections, as data: y = x Wᵀ + scale (x Aᵀ) Bᵀ, where A (rank, in) and B (out,
// rank) are trained and W is not. Every block has the same.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// A block's matrices, as its slice has them: q, k and v are one, and so are gate and up.
enum class Projection : std::uint8_t { kQkv, kOut, kUp, kDown };
inline constexpr std::array kProjections = {Projection::kQkv, Projection::kOut, Projection::kUp, Projection::kDown};

// A matrix of the checkpoint that has an A and a B of its own: rows of a projection.
struct AdapterSite {
  std::string module;  // within a block: "self_attn.q_proj"
  Projection projection = Projection::kQkv;
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
};

// What the weights of blocks are kept as beside an adapter; they are computed with in the run's dtype.
enum class BaseFormat : std::uint8_t { kPlain, kNf4, kInt8 };

struct Adapter {
  std::int64_t rank = 0;  // 0: there is none, and all weights are trained
  double alpha = 0;
  double dropout = 0;  // share of what A reads that is left out while training
  bool rslora = false;
  std::vector<AdapterSite> sites;  // by projection, then by row
  BaseFormat base = BaseFormat::kPlain;
  std::vector<AdapterSite> matrices;  // all of a block, as the checkpoint has them: each is packed by itself

  bool exists() const { return rank > 0; }
  double scale() const { return alpha / (rslora ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank)); }
};

}  // namespace sluice
