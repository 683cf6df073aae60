// SPDX-License-Identifier: Apache-2.0
// A base and a LoRA adapter of it, as one checkpoint: W + scale * B A where the adapter has a module, the adapter's
// tensor where it replaces one, the base's bytes everywhere else. Works on the tensors as Hugging Face names them, so
// it merges models that Sluice cannot run. Names, shapes and types are the base's.
//
// Bounded: of a weight, pieces of rows; of an adapter, the two matrices of one module. A sum is made in f32, over the
// rank from first to last, and rounded once, so the bits are the same for any number of threads and on any CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/worker_team.h"
#include "format/adapter_folder.h"
#include "format/checkpoint.h"
#include "format/checkpoint_writer.h"

namespace sluice {

class AdapterMerge {
 public:
  // Checks every tensor of the adapter against the base: throws InvalidInput naming the tensor if its shape belongs to
  // another model or it holds NaN or Inf. Borrows both.
  AdapterMerge(const Checkpoint& base, const AdapterFolder& adapter);

  std::vector<PlannedTensor> planned_tensors() const;
  // `writer` was made for planned_tensors(). Throws Cancelled where the progress sink was interrupted.
  void write(CheckpointWriter& writer, WorkerTeam& team, const ProgressSink& progress) const;

 private:
  struct Weight {
    const TensorInfo* base = nullptr;
    DType dtype = DType::kF32;
    const TensorInfo* replacement = nullptr;  // of the adapter; or null
    const AdapterModule* module = nullptr;    // or null
  };

  std::size_t find_weight(const std::string& name) const;
  void require_fit(const Weight& weight) const;
  void require_finite(const TensorInfo& tensor) const;
  void write_weight(const Weight& weight, CheckpointWriter& writer, WorkerTeam& team,
                    const std::function<void(std::uint64_t)>& wrote) const;

  const Checkpoint& base_;
  const AdapterFolder& adapter_;
  std::vector<Weight> weights_;  // in the order of the base's bytes
};

}  // namespace sluice
