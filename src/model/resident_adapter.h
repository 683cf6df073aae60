// SPDX-License-Identifier: Apache-2.0
// A LoRA adapter as PEFT saves it, applied while the model computes: y = x Wᵀ + scale (x Aᵀ) Bᵀ. The base stays as it
// is. Modules may differ in rank and scale and be missing from layers, as PEFT's patterns have it: every block gets the
// same sites with the largest rank, zeros where the adapter has nothing, and the scale multiplied into B.
//
// What is no matrix of a block (embeddings, the head, modules_to_save) is refused: `sluice merge` does those.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "format/adapter_folder.h"
#include "model/description.h"

namespace sluice {

// The model with the adapter's sites. Throws InvalidInput, naming the tensor, where it is an adapter of another model
// or of what cannot be applied.
ModelDescription describe_adapted(ModelDescription model, const AdapterFolder& adapter);

// The adapter of every block in device memory for good. Immutable once made.
class ResidentAdapter {
 public:
  // `model` is describe_adapted() of the same folder. Reads all tensors; throws FormatError where a number is not
  // finite.
  ResidentAdapter(Device& device, const ModelDescription& model, const AdapterFolder& adapter);

  // f32, as AdapterLayout has it.
  std::span<std::byte> weights(std::int64_t layer_idx) const {
    return blocks_[static_cast<std::size_t>(layer_idx)].bytes();
  }
  // Device memory that this takes; 0 where the architecture has no adapter.
  static std::uint64_t size_bytes(const Architecture& arch);

 private:
  std::vector<Buffer> blocks_;
};

}  // namespace sluice
