// SPDX-License-Identifier: Apache-2.0
// How fast kernels are here: blocks, attention, AdamW, what only passes over memory, copies. Each is measured alone for
// a moment, on small random numbers. For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "model/architecture.h"
#include "plan/machine.h"
#include "tensor/tensor_view.h"

namespace sluice {

// Whose products are timed: rates follow the shapes of matrices.
struct MeasuredBlock {
  Architecture arch;  // its first block is taken
  std::int64_t num_tokens = 0;
  std::int64_t document_tokens = 64;  // so short that a block is nearly all matrix products
};

// A block of the model's own shape if it can be measured quickly, else one large enough for full kernel throughput; a
// small one if even that does not fit `memory_bytes`.
MeasuredBlock measured_block(const Architecture& arch, std::int64_t batch_tokens, std::uint64_t memory_bytes);
MeasuredBlock usual_block(std::uint64_t memory_bytes);
// For a card, which is quick: a model's own, with documents as long as a run's.
MeasuredBlock whole_block(const Architecture& arch, std::int64_t batch_tokens, std::int64_t sequence_len);
// Device memory that measuring such a block takes, beside scratch memory.
std::uint64_t measuring_bytes(const MeasuredBlock& block, DeviceKind device);

class ComputeSpeed {
 public:
  // The device outlives this. The sizes of the copies and of the optimizer update follow its memory.
  explicit ComputeSpeed(Device& device);

  Machine::Rates attention_flops_per_s();
  Machine::Rates attention_flops_per_s(const MeasuredBlock& block);  // in the shapes of its documents
  // On a machine whose other rates are known.
  Machine::Rates block_flops_per_s(const MeasuredBlock& block, const Machine::Device& known);
  double copy_bytes_per_s();
  double memory_bytes_per_s();     // that kernels reach which only pass over memory
  double optimizer_bytes_per_s();  // that AdamW reads and writes

 private:
  TensorView take(DType dtype, const Shape& shape);
  void free() { memory_.clear(); }
  double median_seconds(const std::function<void()>& work);
  double attention(const Architecture& arch, std::int64_t num_tokens, DType dtype);
  double block(const MeasuredBlock& measured, DType dtype, const Machine::Device& known);

  SteadyClock clock_;
  Device& device_;
  std::uint64_t copy_bytes_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> memory_;
};

}  // namespace sluice
