// SPDX-License-Identifier: Apache-2.0
#include "model/slice_source.h"

#include "base/units.h"
#include "model/slice_layout.h"

namespace sluice {

SliceHold& SliceHold::operator=(SliceHold&& other) noexcept {
  if (this != &other) {
    reset();
    bytes_ = std::exchange(other.bytes_, {});
    let_go_ = std::exchange(other.let_go_, nullptr);
  }
  return *this;
}

void SliceHold::reset() {
  if (let_go_) let_go_();
  let_go_ = nullptr;
  bytes_ = {};
}

ResidentSlices::ResidentSlices(Device& device, const CheckpointSlices& slices, const Architecture& arch, DType dtype,
                               const Loaded& loaded)
    : dtype_(dtype) {
  slices_.reserve(num_slices(arch));
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    const std::uint64_t bytes = slice_layout(arch, slice_idx).size_bytes(dtype);
    slices_.push_back(device.allocate(bytes, slice_name(arch, slice_idx)));
    slices.read(slice_idx, dtype, slices_.back().bytes());
    if (loaded) loaded(slice_idx);
  }
}

SliceHold ResidentSlices::hold(std::size_t slice_idx) { return {slices_.at(slice_idx).bytes(), nullptr}; }

std::uint64_t ResidentSlices::size_bytes(const Architecture& arch, DType dtype) {
  std::uint64_t total = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    total += round_up(slice_layout(arch, slice_idx).size_bytes(dtype), Device::kAlignment);
  }
  return total;
}

}  // namespace sluice
