// SPDX-License-Identifier: Apache-2.0
// For tests: an operation on the CPU and on a card with the same tensors, and how near the results are. Skips where
// there is no card, saying why.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/units.h"
#include "device/cuda_plugin.h"
#include "device/device.h"
#include "ops/test_tensors.h"
#include "tensor/tensor_view.h"

namespace sluice::testing {

// Copies of test tensors on a device, by the tensor they are copies of.
class Place {
 public:
  Place(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  // The copy, made on the first call.
  TensorView operator()(const TestTensor& tensor) const {
    const TensorView view = tensor.view();
    auto found = copies_.find(&tensor);
    if (found == copies_.end()) {
      found =
          copies_.emplace(&tensor, device_.allocate(std::max<std::uint64_t>(1, view.bytes().size()), "a test's tensor"))
              .first;
      stream_.copy(found->second.bytes().first(view.bytes().size()), view.bytes());
    }
    return {found->second.bytes(), view.dtype(), view.shape()};
  }

  // What the copy holds when the stream gets here; waits.
  TestTensor fetch(const TestTensor& tensor) const {
    TestTensor result = tensor.clone();
    stream_.copy(result.view().bytes(), (*this)(tensor).bytes());
    stream_.synchronize();
    return result;
  }

 private:
  Device& device_;
  Stream& stream_;
  mutable std::map<const TestTensor*, Buffer> copies_;
};

// Of one of many in a row. A card that was idle runs faster than it will: it first does the same for a while.
inline double seconds_on_card(Stream& stream, const std::function<void()>& put) {
  using Clock = std::chrono::steady_clock;
  const auto run = [&](int count) {
    const auto start = Clock::now();
    for (int round = 0; round < count; ++round) put();
    stream.synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count() / count;
  };
  run(3);
  constexpr double kWarmUpSeconds = 0.25;
  constexpr double kMeasuredSeconds = 0.35;
  const double guess = run(5);
  run(static_cast<int>(kWarmUpSeconds / guess) + 1);
  return run(static_cast<int>(kMeasuredSeconds / guess) + 1);
}

// The distance of two tensors over the length of the second; NaN where either has one that the other has not.
inline double relative_distance(const TestTensor& actual, const TestTensor& expected) {
  const Doubles a = actual.doubles();
  const Doubles b = expected.doubles();
  double distance = 0;
  double length = 0;
  for (std::size_t idx = 0; idx < b.size(); ++idx) {
    if (a[idx] == b[idx] || (std::isnan(a[idx]) && std::isnan(b[idx]))) {
      if (std::isfinite(b[idx])) length += b[idx] * b[idx];
      continue;
    }
    distance += (a[idx] - b[idx]) * (a[idx] - b[idx]);
    length += b[idx] * b[idx];
  }
  if (distance == 0) return 0;
  return std::sqrt(distance / length);
}

struct Tolerance {
  double f32 = 1e-5;
  double bf16 = 4e-3;  // of values rounded once to bf16; 2^-9 is half a unit
};
inline constexpr Tolerance kSameBits{.f32 = 0, .bf16 = 0};

class CudaTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kArenaBytes = kGiB;
  static constexpr std::uint64_t kScratchBytes = 64 * kMiB;

  using Operation = std::function<void(Stream&, const Place& at)>;

  void SetUp() override {
    CudaPluginFinding found = open_cuda_plugin();
    if (!found.plugin) GTEST_SKIP() << found.why_not;
    plugin_ = std::move(found.plugin);
    const std::string why_not = plugin_->find().why_not;
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    card_ = plugin_->make_device({.arena_bytes = kArenaBytes, .scratch_bytes = kScratchBytes});
  }

  CudaPlugin& plugin() { return *plugin_; }
  Device& card() { return *card_; }
  // Instead of the card as it was made.
  void use_card(const CudaDeviceOptions& options) {
    card_.reset();
    card_ = plugin_->make_device(options);
  }

  // What each of `outputs` holds after `operation` on a card.
  std::vector<TestTensor> on_card(const Operation& operation, const std::vector<const TestTensor*>& outputs) {
    return results(*card_, operation, outputs);
  }

  // On CPU and card, and on the card twice: near, and the same bits again.
  void expect_parity(const Operation& operation, const std::vector<const TestTensor*>& outputs,
                     const Tolerance& tolerance = {}) {
    CpuDevice cpu(kArenaBytes, 2);
    const std::vector<TestTensor> expected = results(cpu, operation, outputs);
    const std::vector<TestTensor> actual = results(*card_, operation, outputs);
    const std::vector<TestTensor> again = results(*card_, operation, outputs);
    for (std::size_t idx = 0; idx < outputs.size(); ++idx) {
      const double allowed = expected[idx].view().dtype() == DType::kBF16 ? tolerance.bf16 : tolerance.f32;
      const double distance = relative_distance(actual[idx], expected[idx]);
      EXPECT_LE(distance, allowed) << "output " << idx << " of " << expected[idx].view().shape().text();
      EXPECT_FALSE(std::isnan(distance)) << "output " << idx;
      EXPECT_TRUE(again[idx].bytes() == actual[idx].bytes()) << "output " << idx << " has other bits the second time";
    }
  }

 private:
  static std::vector<TestTensor> results(Device& device, const Operation& operation,
                                         const std::vector<const TestTensor*>& outputs) {
    const std::unique_ptr<Stream> stream = device.make_stream("test");
    const Place at(device, *stream);
    for (const TestTensor* const output : outputs) at(*output);
    operation(*stream, at);
    stream->synchronize();
    std::vector<TestTensor> fetched;
    fetched.reserve(outputs.size());
    for (const TestTensor* const output : outputs) fetched.push_back(at.fetch(*output));
    return fetched;
  }

  std::unique_ptr<CudaPlugin> plugin_;
  std::unique_ptr<Device> card_;
};

inline const std::vector<DType>& float_types() {
  static const std::vector<DType> types = {DType::kF32, DType::kBF16};
  return types;
}

}  // namespace sluice::testing
