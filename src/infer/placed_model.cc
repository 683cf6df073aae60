// SPDX-License-Identifier: Apache-2.0
#include "infer/placed_model.h"

#include "base/error.h"
#include "model/slice_layout.h"
#include "model/streamed_slices.h"

namespace sluice {

std::uint64_t PlacedModel::resident_bytes(const Architecture& arch, DType dtype) {
  return ResidentSlices::size_bytes(arch, dtype) + ResidentAdapter::size_bytes(arch);
}

std::uint64_t PlacedModel::streamed_bytes(const Architecture& arch, DType dtype, std::uint64_t num_places) {
  return StreamedSlices::least_bytes(arch, dtype, num_places) + ResidentAdapter::size_bytes(arch);
}

PlacedModel::PlacedModel(const ModelParts& parts, const PlacementBudget& budget, const ProgressSink& progress)
    : arch_(parts.model->arch) {
  const DType dtype = budget.dtype;
  const std::uint64_t whole_bytes = resident_bytes(arch_, dtype) + budget.other_bytes;
  streams_ = budget.budget_bytes < whole_bytes;
  device_ = std::make_unique<CpuDevice>(streams_ ? budget.budget_bytes : whole_bytes, budget.num_threads);
  stream_ = device_->make_stream("compute");
  if (parts.adapter != nullptr) adapter_.emplace(*device_, *parts.model, *parts.adapter);
  if (streams_) {
    source_ = std::make_unique<StreamedSlices>(*device_, *parts.slices, arch_, dtype, budget.other_bytes);
    return;
  }
  const std::uint64_t weight_bytes = ResidentSlices::size_bytes(arch_, dtype);
  std::uint64_t done_bytes = 0;
  source_ = std::make_unique<ResidentSlices>(*device_, *parts.slices, arch_, dtype, [&](std::size_t slice_idx) {
    if (progress.interrupted()) throw Cancelled("interrupted while the weights were read");
    done_bytes += slice_layout(arch_, slice_idx).size_bytes(dtype);
    progress.report({.what = "weights", .done = done_bytes, .total = weight_bytes});
  });
}

ForwardParts PlacedModel::forward_parts() {
  return {.stream = stream_.get(), .arch = &arch_, .slices = source_.get(), .adapter = adapter_ ? &*adapter_ : nullptr};
}

}  // namespace sluice
