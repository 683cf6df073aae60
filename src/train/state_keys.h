// SPDX-License-Identifier: Apache-2.0
// What a training run's state is called in a store: weights, adapter, optimizer state and gradients of each slice by
// its name, boundaries by micro-batch and layer.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "model/slice_layout.h"

namespace sluice {

inline std::string weights_key(const Architecture& arch, std::size_t slice_idx) {
  return "w/" + slice_name(arch, slice_idx);
}
inline std::string adapter_key(const Architecture& arch, std::size_t slice_idx) {
  return "a/" + slice_name(arch, slice_idx);
}
// Of what is trained of the slice.
inline std::string trained_key(const Architecture& arch, std::size_t slice_idx) {
  return arch.adapter.exists() ? adapter_key(arch, slice_idx) : weights_key(arch, slice_idx);
}
inline bool is_weights_key(const std::string& key) { return key.starts_with("w/"); }
inline std::string optimizer_key(const Architecture& arch, std::size_t slice_idx) {
  return "o/" + slice_name(arch, slice_idx);
}
inline std::string gradients_key(const Architecture& arch, std::size_t slice_idx) {
  return "g/" + slice_name(arch, slice_idx);
}
// Of a tied embedding, what the tokens' embeddings add: summed apart from what the head adds, so that the order of sums
// is the same for every wave.
inline std::string lookup_gradients_key(const Architecture& arch, std::size_t slice_idx) {
  return "e/" + slice_name(arch, slice_idx);
}
inline std::string boundary_key(std::int64_t batch_idx, std::int64_t layer_idx) {
  return fmt::format("x/{}/{}", batch_idx, layer_idx);
}

}  // namespace sluice
