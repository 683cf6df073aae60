// SPDX-License-Identifier: Apache-2.0
// A block's slice with its matrices in 4 or 8 bits, for a base that is only read: how it lies in its run, how it is
// made of the slice and made into it again. Norms and biases stay as they are. Puts work on the stream and returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "model/slice_layout.h"
#include "ops/quantize.h"

namespace sluice {

class PackedBlock {
 public:
  // dtype: what the block is computed with, and what stays plain is kept in.
  PackedBlock(const Architecture& arch, DType dtype);

  std::uint64_t size_bytes() const { return size_bytes_; }
  std::uint64_t slice_bytes() const { return layout_.size_bytes(dtype_); }

  // Both ends outlive the work on the stream.
  void pack(Stream& stream, std::span<std::byte> slice, std::span<std::byte> packed) const;
  // Gaps between parameters are left as they are.
  void unpack(Stream& stream, std::span<std::byte> packed, std::span<std::byte> slice) const;

  // For what comes packed already: the matrix of the checkpoint whose first row is that of the parameter, in NF4; and a
  // parameter that stays plain.
  Nf4Tensor nf4(std::span<std::byte> packed, Param param, std::int64_t first_row) const;
  TensorView plain(std::span<std::byte> packed, Param param) const;

 private:
  // A parameter, or the rows of one that are a matrix of the checkpoint.
  struct Part {
    Param param = Param::kQkv;
    std::int64_t first_row = 0;
    Shape shape;
    BaseFormat format = BaseFormat::kPlain;
    std::uint64_t offset = 0;  // bytes from the run's start
  };

  void add(const Part& part);
  const Part& find(Param param, std::int64_t first_row) const;
  TensorView view(std::span<std::byte> slice, const Part& part) const;

  SliceLayout layout_;
  DType dtype_;
  std::vector<Part> parts_;
  std::uint64_t size_bytes_ = 0;
};

// Whether a slice's weights are kept packed, and the bytes of its run.
bool is_packed(const Architecture& arch, std::size_t slice_idx);
std::uint64_t kept_bytes(const Architecture& arch, std::size_t slice_idx, DType dtype);

}  // namespace sluice
