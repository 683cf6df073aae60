// SPDX-License-Identifier: Apache-2.0
// For tests of operations: tensors that own their memory, filled from a seed, as doubles and back; and the ways an
// operation should give the same result: every instruction set, every number of threads. Single-threaded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/bf16.h"
#include "base/check.h"
#include "base/random.h"
#include "device/cpu/cpu_device.h"
#include "ops/cpu/test_targets.h"
#include "tensor/tensor_view.h"

namespace sluice::testing {

using Doubles = std::vector<double>;

// Exactly as many bytes as the shape needs, so that a sanitizer sees what goes beyond.
class TestTensor {
 public:
  TestTensor(DType dtype, const Shape& shape)
      : dtype_(dtype),
        shape_(shape),
        size_(static_cast<std::size_t>(shape.num_elements())),
        bytes_(std::make_unique<std::byte[]>(size_ * size_bytes(dtype))) {}
  TestTensor(DType dtype, const Shape& shape, const Doubles& values) : TestTensor(dtype, shape) {
    CHECK(values.size() == size_, "as many values as elements");
    for (std::size_t idx = 0; idx < size_; ++idx) put(idx, values[idx]);
  }

  TensorView view() const { return {{bytes_.get(), size_ * size_bytes(dtype_)}, dtype_, shape_}; }
  operator TensorView() const { return view(); }  // NOLINT(google-explicit-constructor): as an argument it is a view

  // What the elements are after rounding to the dtype.
  Doubles doubles() const {
    Doubles values(size_);
    for (std::size_t idx = 0; idx < size_; ++idx) values[idx] = get(idx);
    return values;
  }
  std::vector<std::byte> bytes() const { return {bytes_.get(), bytes_.get() + size_ * size_bytes(dtype_)}; }
  TestTensor clone() const {
    TestTensor copy(dtype_, shape_);
    if (size_ > 0) std::memcpy(copy.bytes_.get(), bytes_.get(), size_ * size_bytes(dtype_));
    return copy;
  }

 private:
  void put(std::size_t idx, double value) {
    switch (dtype_) {
      case DType::kF32:
        view().as<float>()[idx] = static_cast<float>(value);
        return;
      case DType::kBF16:
        view().as<BF16>()[idx] = to_bf16(static_cast<float>(value));
        return;
      case DType::kI32:
        view().as<std::int32_t>()[idx] = static_cast<std::int32_t>(value);
        return;
      default:
        CHECK(false, "tests use f32, bf16 and i32");
    }
  }
  double get(std::size_t idx) const {
    switch (dtype_) {
      case DType::kF32:
        return view().as<float>()[idx];
      case DType::kBF16:
        return to_float(view().as<BF16>()[idx]);
      case DType::kI32:
        return view().as<std::int32_t>()[idx];
      default:
        CHECK(false, "tests use f32, bf16 and i32");
        return 0;
    }
  }

  DType dtype_;
  Shape shape_;
  std::size_t size_;
  std::unique_ptr<std::byte[]> bytes_;
};

// Roughly normal: the sum of uniforms, mean 0, the standard deviation given.
inline TestTensor random_tensor(DType dtype, const Shape& shape, std::uint64_t seed, double deviation = 1) {
  Random random(seed);
  Doubles values(static_cast<std::size_t>(shape.num_elements()));
  for (double& value : values) {
    double sum = 0;
    for (int part = 0; part < 6; ++part) sum += static_cast<double>(random.next() >> 11) * 0x1p-53 - 0.5;
    value = sum * std::sqrt(2.0) * deviation;
  }
  return {dtype, shape, values};
}

// Whole numbers in [0, bound).
inline TestTensor random_ids(const Shape& shape, std::uint64_t bound, std::uint64_t seed) {
  Random random(seed);
  Doubles values(static_cast<std::size_t>(shape.num_elements()));
  for (double& value : values) value = static_cast<double>(random.below(bound));
  return {DType::kI32, shape, values};
}

inline const char* label(DType dtype) { return dtype == DType::kF32 ? "f32" : "bf16"; }

// How far a result may be from the exact one: `relative` of the largest element, plus half a unit of bf16 where the
// result was rounded to that.
inline void expect_close(const TestTensor& actual, const Doubles& exact, double relative) {
  const Doubles values = actual.doubles();
  ASSERT_EQ(values.size(), exact.size());
  double largest = 0;
  for (const double value : exact) largest = std::max(largest, std::abs(value));
  const double rounding = actual.view().dtype() == DType::kBF16 ? 0x1p-8 : 0;
  for (std::size_t idx = 0; idx < exact.size(); ++idx) {
    const double allowed = relative * largest + rounding * std::abs(exact[idx]);
    ASSERT_TRUE(std::abs(values[idx] - exact[idx]) <= allowed)
        << "element " << idx << " is " << values[idx] << ", not " << exact[idx] << " within " << allowed;
  }
}

// Runs work(stream) on a device with so many threads and waits; throws what failed.
template <typename Work>
void run_on_cpu(std::size_t num_threads, const Work& work) {
  CpuDevice device(Device::kAlignment, num_threads);
  const std::unique_ptr<Stream> stream = device.make_stream("test");
  work(*stream);
  stream->synchronize();
}

// Calls check() once for each instruction set.
template <typename Check>
void on_every_target(const Check& check) {
  for (const std::int64_t target : cpu::ForcedTarget::all()) {
    const cpu::ForcedTarget forced(target);
    SCOPED_TRACE(cpu::ForcedTarget::name(target));
    check();
  }
}

// result_bytes(num_threads) runs the operation anew; its result must not depend on the threads.
template <typename ResultBytes>
void expect_same_bits_for_any_team(const ResultBytes& result_bytes) {
  const std::vector<std::byte> alone = result_bytes(1);
  for (const std::size_t num_threads : {2, 3, 7}) {
    EXPECT_TRUE(result_bytes(num_threads) == alone) << "with " << num_threads << " threads";
  }
}

}  // namespace sluice::testing
