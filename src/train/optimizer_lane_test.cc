// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer_lane.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/page_memory.h"
#include "base/random.h"
#include "base/units.h"
#include "io/fake/fake_disk.h"
#include "model/handmade_model.h"
#include "plan/step_memory.h"
#include "train/state_keys.h"
#include "train/training_state.h"

namespace sluice {
namespace {

constexpr std::int64_t kLaneSteps = 6;
constexpr double kLearningRate = 3e-3;  // less than half of what a bf16 between 1 and 2 can show
constexpr double kDecay = 0.4;
constexpr double kMomentum = 0.5;
constexpr double kBeta1 = 0.8;
constexpr double kBeta2 = 0.95;
// Another one each step: where all are alike, AdamW goes the same way without.
constexpr float scale_of(std::int64_t step) { return step % 2 == 0 ? 0.75F : 0.25F; }

// One block that takes several windows, with norms that are no whole number of blocks of moments.
Architecture wide_arch() {
  const nlohmann::json config{{"model_type", "llama"},  {"hidden_size", 320},          {"intermediate_size", 200},
                              {"num_hidden_layers", 1}, {"num_attention_heads", 5},    {"num_key_value_heads", 5},
                              {"vocab_size", 90},       {"tie_word_embeddings", true}, {"max_position_embeddings", 64}};
  return describe_model(ConfigReader("handmade", config)).arch;
}

struct UpdateWay {
  OptimizerState optimizer = OptimizerState::kAdamWF32;
  DType dtype = DType::kBF16;
  Home weights = Home::kHost;
  Home state = Home::kHost;
  std::uint64_t chunk_bytes = 64 * kKiB;
  std::size_t num_threads = 2;
  std::uint64_t seed = 1;
};

using Slices = std::vector<std::vector<float>>;

// As a bf16 has it, so that the master begins with trailing bits of zero; and where steps do not lead out of [1, 2).
std::vector<float> first_weights(std::uint64_t num_elements, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(num_elements);
  for (float& value : values) value = to_float(to_bf16(1.1F + static_cast<float>(random.below(1000)) / 1300));
  return values;
}

// Of one sign for an element, so that small steps add up.
std::vector<float> gradients_of(std::uint64_t num_elements, std::uint64_t slice_idx, std::int64_t step) {
  Random signs(slice_idx);
  Random random(100 * slice_idx + static_cast<std::uint64_t>(step));
  std::vector<float> values(num_elements);
  for (float& value : values) {
    const float size = 0.5F + static_cast<float>(random.below(1000)) / 2000;
    value = signs.one_in(2) ? size : -size;
  }
  return values;
}

void put(RunKeeper& keeper, const std::string& key, DType dtype, const std::vector<float>& values) {
  const PageMemory memory(round_up(values.size() * size_bytes(dtype), kBlockBytes));
  for (std::size_t idx = 0; idx < values.size(); ++idx) {
    if (dtype == DType::kF32) {
      std::memcpy(memory.bytes().data() + idx * sizeof(float), &values[idx], sizeof(float));
    } else {
      const BF16 rounded = to_bf16(values[idx]);
      std::memcpy(memory.bytes().data() + idx * sizeof(BF16), &rounded, sizeof(BF16));
    }
  }
  if (keeper.home(key) != Home::kNvme) {
    std::memcpy(keeper.bytes(key).data(), memory.bytes().data(), keeper.size_bytes(key));
    return;
  }
  SliceWriter writer = keeper.begin(key);
  writer.write(0, memory.bytes()).wait();
  keeper.replace(key, std::move(writer));
}

// The weights after all steps.
Slices run(const Architecture& arch, const UpdateWay& way) {
  Schedule schedule{.dtype = way.dtype, .optimizer = way.optimizer};
  schedule.homes.assign(num_slices(arch), {.weights = way.weights, .optimizer = way.state, .gradients = Home::kHost});
  const ScratchDirectory directory;
  PosixFileSystem files;
  ThreadsEngine engine(2);
  const StoreHome home{.files = files, .engine = engine, .directories = {directory.path()}, .growth_bytes = kMiB};
  const auto store = SliceStore::create(home, {.chunk_bytes = way.chunk_bytes});
  CpuDevice device(64 * kMiB, 1);
  Budget host("host memory", 256 * kMiB);
  StagingRing ring(device, engine, host, {.slot_bytes = way.chunk_bytes, .num_slots = 4});
  RunKeeper keeper({.device = &device, .host = &host, .store = store.get(), .ring = &ring});
  const WeightKeeping state{.keeper = &keeper, .store = store.get(), .arch = &arch, .schedule = &schedule};
  add_weights(state);
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    const std::uint64_t num_elements = slice_layout(arch, slice_idx).num_elements();
    put(keeper, weights_key(arch, slice_idx), way.dtype, first_weights(num_elements, slice_idx));
    keeper.add(gradients_key(arch, slice_idx), num_elements * sizeof(float), Home::kHost, Lifetime::kScratch);
  }
  OptimizerLane lane({.arch = &arch,
                      .keeper = &keeper,
                      .store = store.get(),
                      .host = &host,
                      .schedule = &schedule,
                      .num_threads = way.num_threads,
                      .num_windows = 2,
                      .momentum = way.optimizer == OptimizerState::kSgdMomentum ? kMomentum : 0,
                      .seed = way.seed});
  for (std::int64_t step = 1; step <= kLaneSteps; ++step) {
    for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
      put(keeper, gradients_key(arch, slice_idx), DType::kF32,
          gradients_of(slice_layout(arch, slice_idx).num_elements(), slice_idx, step));
    }
    lane.update({.learning_rate = kLearningRate,
                 .beta1 = kBeta1,
                 .beta2 = kBeta2,
                 .weight_decay = kDecay,
                 .step = step,
                 .grad_scale = scale_of(step)},
                nullptr);
    lane.wait();
  }
  Slices slices;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    const std::uint64_t num_elements = slice_layout(arch, slice_idx).num_elements();
    const PageMemory memory(round_up(num_elements * size_bytes(way.dtype), kBlockBytes));
    read_trained(state, slice_idx, memory.bytes());
    std::vector<float> values(num_elements);
    for (std::size_t idx = 0; idx < num_elements; ++idx) {
      if (way.dtype == DType::kF32) {
        std::memcpy(&values[idx], memory.bytes().data() + idx * sizeof(float), sizeof(float));
      } else {
        BF16 value;
        std::memcpy(&value, memory.bytes().data() + idx * sizeof(BF16), sizeof(BF16));
        values[idx] = to_float(value);
      }
    }
    slices.push_back(std::move(values));
  }
  return slices;
}

// torch.optim's definitions, of one element.
double after_all_steps(OptimizerState optimizer, double weight, double decay, const std::vector<double>& gradients) {
  double m = 0;
  double v = 0;
  for (std::size_t idx = 0; idx < gradients.size(); ++idx) {
    const auto step = static_cast<double>(idx + 1);
    const double gradient = gradients[idx] * static_cast<double>(scale_of(static_cast<std::int64_t>(idx) + 1));
    if (is_sgd(optimizer)) {
      const double momentum = optimizer == OptimizerState::kSgdMomentum ? kMomentum : 0;
      m = momentum * m + gradient + decay * weight;
      weight -= kLearningRate * m;
    } else {
      m = kBeta1 * m + (1 - kBeta1) * gradient;
      v = kBeta2 * v + (1 - kBeta2) * gradient * gradient;
      weight -= kLearningRate * decay * weight;
      weight -=
          kLearningRate * (m / (1 - std::pow(kBeta1, step))) / (std::sqrt(v / (1 - std::pow(kBeta2, step))) + 1e-8);
    }
  }
  return weight;
}

// Calls `check` with what each element is and what it should be; the gaps between parameters stay as they were.
template <typename Check>
void compare(const Architecture& arch, OptimizerState optimizer, const Slices& found, const Check& check) {
  for (std::size_t slice_idx = 0; slice_idx < found.size(); ++slice_idx) {
    const SliceLayout layout = slice_layout(arch, slice_idx);
    const std::uint64_t num_elements = layout.num_elements();
    std::vector<std::vector<float>> gradients;
    for (std::int64_t step = 1; step <= kLaneSteps; ++step) {
      gradients.push_back(gradients_of(num_elements, slice_idx, step));
    }
    const std::vector<float> first = first_weights(num_elements, slice_idx);
    std::vector<double> expected(first.begin(), first.end());
    for (const Parameter& parameter : layout.parameters()) {
      const bool is_norm = parameter.param == Param::kAttentionNorm || parameter.param == Param::kMlpNorm ||
                           parameter.param == Param::kFinalNorm;
      for (std::uint64_t idx = 0; idx < static_cast<std::uint64_t>(parameter.shape.num_elements()); ++idx) {
        const std::uint64_t at = parameter.offset + idx;
        std::vector<double> of_element;
        for (const auto& step : gradients) of_element.push_back(static_cast<double>(step[at]));
        expected[at] = after_all_steps(optimizer, expected[at], is_norm ? 0 : kDecay, of_element);
      }
    }
    for (std::uint64_t at = 0; at < num_elements; ++at) {
      check(static_cast<double>(found[slice_idx][at]), expected[at]);
    }
  }
}

double largest_error(const Architecture& arch, OptimizerState optimizer, const Slices& found) {
  double largest = 0;
  compare(arch, optimizer, found,
          [&](double is, double should) { largest = std::max(largest, std::abs(is - should)); });
  return largest;
}

TEST(OptimizerLane, IsTheDefinitionOfItsOptimizerWithDecayForMatricesAlone) {
  const Architecture arch = wide_arch();
  for (const OptimizerState optimizer :
       {OptimizerState::kAdamWF32, OptimizerState::kSgd, OptimizerState::kSgdMomentum}) {
    const Slices found = run(arch, {.optimizer = optimizer, .dtype = DType::kF32});
    EXPECT_LT(largest_error(arch, optimizer, found), 2e-6) << name(optimizer);
  }
}

// A step is less than a bf16 shows; all of them together are not.
TEST(OptimizerLane, SmallStepsOfBf16WeightsAddUpInTheirTrailingBits) {
  const Architecture arch = wide_arch();
  constexpr double kHalfUlp = 1.0 / 256;
  for (const OptimizerState optimizer :
       {OptimizerState::kAdamWF32, OptimizerState::kSgd, OptimizerState::kSgdMomentum}) {
    const Slices found = run(arch, {.optimizer = optimizer, .dtype = DType::kBF16, .weights = Home::kNvme});
    EXPECT_LT(largest_error(arch, optimizer, found), 1.01 * kHalfUlp) << name(optimizer);
  }
}

// By how much an update misses, in parts of the way that AdamW goes.
TEST(OptimizerLane, ShortMomentsGoNearlyWhereF32MomentsGo) {
  const Architecture arch = wide_arch();
  const Slices whole = run(arch, {.optimizer = OptimizerState::kAdamWF32, .dtype = DType::kF32});
  for (const auto& [optimizer, tolerance] :
       {std::pair(OptimizerState::kAdamWBF16, 0.01), std::pair(OptimizerState::kAdamW8Bit, 0.05)}) {
    const Slices found = run(arch, {.optimizer = optimizer, .dtype = DType::kF32});
    double squares = 0;
    double count = 0;
    compare(arch, optimizer, found, [&](double is, double should) {
      squares += (is - should) * (is - should);
      count += 1;
    });
    const double way = kLearningRate * static_cast<double>(kLaneSteps);
    EXPECT_LT(std::sqrt(squares / count), tolerance * way) << name(optimizer);
    EXPECT_FALSE(found == whole) << name(optimizer) << " has moments of its own";
  }
}

TEST(OptimizerLane, HomesThreadsAndTheLengthOfWindowsChangeNoBit) {
  const Architecture arch = wide_arch();
  for (const OptimizerState optimizer : kOptimizerStates) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      const Slices expected = run(arch, {.optimizer = optimizer, .dtype = dtype, .num_threads = 1});
      for (UpdateWay way : {UpdateWay{.weights = Home::kNvme, .state = Home::kNvme},
                            UpdateWay{.weights = Home::kHost, .state = Home::kNvme, .chunk_bytes = 4 * kKiB},
                            UpdateWay{.weights = Home::kDevice, .state = Home::kDevice},
                            UpdateWay{.weights = Home::kNvme, .state = Home::kHost, .chunk_bytes = kMiB}}) {
        way.optimizer = optimizer;
        way.dtype = dtype;
        EXPECT_TRUE(run(arch, way) == expected) << name(optimizer) << ", chunks of " << way.chunk_bytes;
      }
    }
  }
}

TEST(OptimizerLane, WhatIsRoundedStochasticallyFollowsTheSeed) {
  const Architecture arch = wide_arch();
  const UpdateWay way{.optimizer = OptimizerState::kAdamWBF16, .dtype = DType::kF32};
  UpdateWay other = way;
  other.seed = 2;
  EXPECT_FALSE(run(arch, way) == run(arch, other));
}

// All slices are done when a commit fails: nothing but the next update can tell.
TEST(OptimizerLane, ACommitThatFailsIsToldByTheNextUpdate) {
  const Architecture arch = wide_arch();
  Schedule schedule{.dtype = DType::kF32};
  schedule.homes.assign(num_slices(arch), {.weights = Home::kHost, .optimizer = Home::kHost, .gradients = Home::kHost});
  FakeDisk disk;
  FakeEngine engine(disk);
  const auto store = SliceStore::create({.files = disk, .engine = engine, .directories = {"drive"}}, {});
  CpuDevice device(kMiB, 1);
  Budget host("host memory", 256 * kMiB);
  StagingRing ring(device, engine, host, {.slot_bytes = store->chunk_bytes(), .num_slots = 4});
  RunKeeper keeper({.device = &device, .host = &host, .store = store.get(), .ring = &ring});
  add_weights({.keeper = &keeper, .store = store.get(), .arch = &arch, .schedule = &schedule});
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    keeper.add(gradients_key(arch, slice_idx), slice_layout(arch, slice_idx).num_elements() * sizeof(float),
               Home::kHost, Lifetime::kScratch);
  }
  OptimizerLane lane(
      {.arch = &arch, .keeper = &keeper, .store = store.get(), .host = &host, .schedule = &schedule, .num_threads = 1});
  keeper.stage_memory();
  std::atomic<int> num_syncs = 0;
  disk.set_hook([&](const FakeOperation& operation) {
    return operation.op == FakeOp::kSync && num_syncs++ == 0 ? Fault::kEio : Fault::kNone;
  });
  const auto ready = lane.update({.step = 1}, [&] { store->commit("step 1"); });
  for (const auto& slice : ready) EXPECT_NO_THROW(slice.get());
  EXPECT_THROW(lane.update({.step = 2}, nullptr), IoError);
  EXPECT_EQ(num_syncs, 1);
}

}  // namespace
}  // namespace sluice
