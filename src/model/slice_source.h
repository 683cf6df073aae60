// SPDX-License-Identifier: Apache-2.0
// Where a pass through the model gets its slices from. Residency looks the same to the model whatever it is: ask for a
// slice, use it, let it go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"
#include "model/checkpoint_slices.h"

namespace sluice {

// A slice that stays where it is until this dies. Whoever holds it waits for the stream before letting go.
class SliceHold {
 public:
  SliceHold() = default;
  SliceHold(std::span<std::byte> bytes, std::function<void()> let_go) : bytes_(bytes), let_go_(std::move(let_go)) {}
  ~SliceHold() { reset(); }
  SliceHold(SliceHold&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), let_go_(std::exchange(other.let_go_, nullptr)) {}
  SliceHold& operator=(SliceHold&& other) noexcept;
  SliceHold(const SliceHold&) = delete;
  SliceHold& operator=(const SliceHold&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  void reset();

  std::span<std::byte> bytes_;
  std::function<void()> let_go_;
};

class SliceSource {
 public:
  virtual ~SliceSource() = default;
  // Waits until the slice is in device memory. Throws what reading it threw.
  virtual SliceHold hold(std::size_t slice_idx) = 0;
  virtual DType dtype() const = 0;
};

// Every slice, read once, in device memory for good.
class ResidentSlices : public SliceSource {
 public:
  using Loaded = std::function<void(std::size_t slice_idx)>;  // progress
  ResidentSlices(Device& device, const CheckpointSlices& slices, const Architecture& arch, DType dtype,
                 const Loaded& loaded = nullptr);

  SliceHold hold(std::size_t slice_idx) override;
  DType dtype() const override { return dtype_; }

  std::span<std::byte> bytes(std::size_t slice_idx) const { return slices_[slice_idx].bytes(); }
  static std::uint64_t size_bytes(const Architecture& arch, DType dtype);

 private:
  DType dtype_;
  std::vector<Buffer> slices_;
};

}  // namespace sluice
