// SPDX-License-Identifier: Apache-2.0
// A LoRA adapter in PEFT's format, applied at run time: y = x Wᵀ + scale (x Aᵀ) Bᵀ. The base weights are unchanged.
// Modules may differ in rank and scale and be missing from layers (rank_pattern, alpha_pattern): every block gets the
// same sites with the largest rank, zero-padded, and the scale folded into B.
//
// Adapted tensors outside the blocks (embeddings, the head, modules_to_save) are rejected: use `sluice merge`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "format/adapter_folder.h"
#include "model/description.h"

namespace sluice {

// The model description with the adapter's sites. Throws InvalidInput naming the tensor if the adapter is another
// model's or adapts an unsupported tensor.
ModelDescription describe_adapted(ModelDescription model, const AdapterFolder& adapter);

// The adapter weights of every block, resident in device memory. Immutable.
class ResidentAdapter {
 public:
  // `model` is describe_adapted() of the same folder. Reads all tensors; throws FormatError if one holds NaN or Inf.
  ResidentAdapter(Device& device, const ModelDescription& model, const AdapterFolder& adapter);

  // f32, in the layout of AdapterLayout.
  std::span<std::byte> weights(std::int64_t layer_idx) const {
    return blocks_[static_cast<std::size_t>(layer_idx)].bytes();
  }
  // Device memory of the adapter; 0 if the architecture has none.
  static std::uint64_t size_bytes(const Architecture& arch);

 private:
  std::vector<Buffer> blocks_;
};

}  // namespace sluice
