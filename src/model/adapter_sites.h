// SPDX-License-Identifier: Apache-2.0
// From what a user asks for to an Adapter, and from an Adapter to the tensors that PEFT knows it by. Sites are the
// checkpoint's own matrices, so that an adapter trained here fits the model elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/description.h"
#include "model/tensor_placement.h"

namespace sluice {

struct AdapterSettings {
  std::int64_t rank = 16;
  double alpha = 32;
  double dropout = 0;
  bool rslora = false;
  BaseFormat base = BaseFormat::kPlain;
  std::vector<std::string> targets;  // names of modules, whole or their ends; empty: every matrix of a block
};

// Throws InvalidInput where a target is no matrix of a block, naming those that are.
Adapter make_adapter(const ModelDescription& model, const AdapterSettings& settings);

// The names of a block's matrices, without what stands before their last dot: "q_proj".
std::vector<std::string> module_names(const Adapter& adapter);

// Which elements of PEFT's tensors are which elements of a slice's adapter, f32; none where the slice has none.
std::vector<TensorPlacement> place_adapter_tensors(const ModelDescription& model, std::size_t slice_idx);

// As PEFT begins: A uniform within 1 / sqrt(in), B zeros. The same for a seed wherever it lies.
void init_adapter(const Architecture& arch, std::size_t slice_idx, std::uint64_t seed, std::span<std::byte> adapter);

}  // namespace sluice
