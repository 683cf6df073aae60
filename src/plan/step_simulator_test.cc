// SPDX-License-Identifier: Apache-2.0
// Steps whose time can be worked out by hand: one lane that costs something, or two that take turns.
#include "plan/step_simulator.h"

#include <gtest/gtest.h>

#include "plan/handmade_plan.h"

namespace sluice {
namespace {

constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kTokens = 128;
constexpr double kBlockMatrices = 256.0 * (256 + 2 * 128) + 256.0 * 256 + 3 * 256.0 * 680;
constexpr double kBlockElements = kBlockMatrices + 2 * 256;  // with its norms
constexpr double kEndElements = 5000.0 * 256;                // embedding; head
constexpr double kAllElements = kLayers * kBlockElements + 2 * kEndElements + 256;

Schedule schedule_of(const SliceHomes& homes) {
  return {.wave = 1,
          .group = 1,
          .batch_tokens = kTokens,
          .weight_places = 1,
          .gradient_places = 1,
          .boundaries = Home::kDevice,
          .homes = std::vector<SliceHomes>(kLayers + 3, homes)};
}

StepForecast simulate(const Machine& machine, const Schedule& schedule, std::int64_t num_micro_batches = 1) {
  const Architecture arch = small_arch(kLayers);
  const StepShape shape{
      .dtype = DType::kBF16, .batch_tokens = kTokens, .sequence_len = kTokens, .num_micro_batches = num_micro_batches};
  return StepSimulator(arch, machine, shape, kMiB).run(schedule);
}

// What is free still takes a millionth of what is not.
void expect_close(double value, double expected) { EXPECT_NEAR(value, expected, 1e-4 * expected); }

constexpr SliceHomes kAllOnDevice{.weights = Home::kDevice, .optimizer = Home::kDevice, .gradients = Home::kDevice};
constexpr SliceHomes kWeightsInHost{.weights = Home::kHost, .optimizer = Home::kDevice, .gradients = Home::kDevice};

// Forward 2, recomputed but for the MLP's last product 2, backward 4; the head's logits once and their gradients twice.
double product_flops() {
  const double block = (2 + 2 + 4) * kBlockMatrices - 2 * 256.0 * 680;
  return kTokens * (kLayers * block + 3 * 2 * kEndElements);
}

TEST(StepSimulator, WithAllOnTheDeviceTheStepIsItsComputation) {
  Machine machine = free_machine();
  machine.device.flops_per_s.bf16 = 1e12;
  const StepForecast forecast = simulate(machine, schedule_of(kAllOnDevice), 4);
  expect_close(forecast.step_s, 4 * product_flops() / 1e12);
  expect_close(forecast.load.of(Lane::kCompute), forecast.step_s);
  EXPECT_EQ(forecast.bound, Lane::kCompute);
  EXPECT_EQ(forecast.load.of(Lane::kHostToDevice), 0);
}

TEST(StepSimulator, AStoredLayerIsNotComputedAgain) {
  Machine machine = free_machine();
  machine.device.flops_per_s.bf16 = 1e12;
  Schedule schedule = schedule_of(kAllOnDevice);
  schedule.stored_layers = 2;
  const double saved = 2 * 2 * (kBlockMatrices - 256.0 * 680);
  expect_close(simulate(machine, schedule).step_s, (product_flops() - kTokens * saved) / 1e12);
  machine = free_machine();
  machine.device.attention_flops_per_s.bf16 = 1e12;
  const double flops = 2.0 * (2 * (2 + 5) + (2 + 2 + 5)) * kTokens * ((kTokens + 1) / 2.0) * 256;
  expect_close(simulate(machine, schedule).step_s, flops / 1e12);
}

TEST(StepSimulator, AttentionSpansTheSequenceUnderItsMask) {
  Machine machine = free_machine();
  machine.device.attention_flops_per_s.bf16 = 1e12;
  // Two products forward, two recomputed, five backward; a token sees half of the sequence and itself.
  const double flops = kLayers * 2.0 * (2 + 2 + 5) * kTokens * ((kTokens + 1) / 2.0) * 256;
  expect_close(simulate(machine, schedule_of(kAllOnDevice)).step_s, flops / 1e12);
}

TEST(StepSimulator, WithOnePlaceEveryUseOfWeightsCrossesTheLink) {
  Machine machine = free_machine();
  machine.links.to_device_bytes_per_s = 1e9;
  // Embedding, blocks, head, blocks; the norm is small and stays.
  const double bytes = 2 * (2 * kEndElements + 2 * kLayers * kBlockElements + 256);
  const StepForecast forecast = simulate(machine, schedule_of(kWeightsInHost));
  expect_close(forecast.step_s, bytes / 1e9);
  EXPECT_EQ(forecast.bound, Lane::kHostToDevice);
}

TEST(StepSimulator, WithPlacesForAllWeightsCrossTheLinkOnceAStep) {
  Machine machine = free_machine();
  machine.links.to_device_bytes_per_s = 1e9;
  Schedule schedule = schedule_of(kWeightsInHost);
  schedule.weight_places = kLayers + 2;
  expect_close(simulate(machine, schedule, 4).step_s, 2 * kAllElements / 1e9);
}

TEST(StepSimulator, WithOnePlaceNothingOverlapsAndWithTwoSomeDoes) {
  Machine machine = free_machine();
  machine.device.flops_per_s.bf16 = 1e12;
  machine.links.to_device_bytes_per_s = 1e10;
  Schedule schedule = schedule_of(kWeightsInHost);
  const StepForecast one = simulate(machine, schedule);
  // The embedding is free to compute, so the first block could only be brought under that.
  expect_close(one.step_s, one.load.of(Lane::kCompute) + one.load.of(Lane::kHostToDevice));
  schedule.weight_places = 2;
  const StepForecast two = simulate(machine, schedule);
  EXPECT_LT(two.step_s, one.step_s * 0.9);
  EXPECT_GE(two.step_s, std::max(two.load.of(Lane::kCompute), two.load.of(Lane::kHostToDevice)));
}

TEST(StepSimulator, AWaveBringsWeightsOnceForAllItsMicroBatches) {
  Machine machine = free_machine();
  machine.links.to_device_bytes_per_s = 1e9;
  Schedule schedule = schedule_of(kWeightsInHost);
  const double one_by_one_s = simulate(machine, schedule, 4).step_s;
  schedule.wave = 4;
  expect_close(simulate(machine, schedule, 4).step_s, simulate(machine, schedule, 1).step_s);
  // The turn from a wave's last block, which is the first, to the embedding saves nothing with one place.
  EXPECT_GT(one_by_one_s, 3.9 * simulate(machine, schedule, 4).step_s);
}

TEST(StepSimulator, GradientsLeaveEveryWaveAndComeBackForTheNext) {
  Machine machine = free_machine();
  machine.links.from_device_bytes_per_s = 1e9;
  Schedule schedule = schedule_of({.weights = Home::kDevice, .optimizer = Home::kDevice, .gradients = Home::kHost});
  const double bytes = 4 * kAllElements;
  const StepForecast forecast = simulate(machine, schedule, 3);
  expect_close(forecast.load.of(Lane::kDeviceToHost), 3 * bytes / 1e9);
  EXPECT_NEAR(forecast.load.of(Lane::kHostToDevice) * kFree, 2 * bytes, 1);
  expect_close(forecast.step_s, 3 * bytes / 1e9);
  EXPECT_EQ(forecast.bound, Lane::kDeviceToHost);
}

TEST(StepSimulator, BoundariesOfEveryMicroBatchLeaveAndComeBack) {
  Machine machine = free_machine();
  machine.links.from_device_bytes_per_s = 1e9;
  Schedule schedule = schedule_of(kAllOnDevice);
  schedule.wave = 4;
  schedule.boundaries = Home::kHost;
  schedule.boundary_places = 2;
  const double bytes = 4.0 * kLayers * kTokens * 256 * 2;
  const StepForecast forecast = simulate(machine, schedule, 4);
  expect_close(forecast.load.of(Lane::kDeviceToHost), bytes / 1e9);
  EXPECT_NEAR(forecast.load.of(Lane::kHostToDevice) * kFree, bytes, 1);
}

TEST(StepSimulator, TheForwardWaitsForTheOptimizerAndTheBackwardComesAfterIt) {
  Machine machine = free_machine();
  machine.host.optimizer_bytes_per_s = 1e9;
  const double update_s = kAllElements * 28 / 1e9;
  const SliceHomes homes{.weights = Home::kHost, .optimizer = Home::kHost, .gradients = Home::kHost};
  expect_close(simulate(machine, schedule_of(homes)).step_s, update_s);
  machine.device.flops_per_s.bf16 = 1e12;
  const StepForecast forecast = simulate(machine, schedule_of(homes));
  // What is left when the last slice is ready, the head, is all but the forward.
  const double forward_s = kTokens * kLayers * 2 * kBlockMatrices / 1e12;
  expect_close(forecast.step_s, update_s + product_flops() / 1e12 - forward_s);
  EXPECT_EQ(forecast.bound, Lane::kCpuOptimizer);
}

TEST(StepSimulator, StateOnTheDrivesIsReadAndWrittenOnceAStep) {
  Machine machine = free_machine();
  machine.drives[0].write_bytes_per_s = 1e9;
  const SliceHomes homes{.weights = Home::kHost, .optimizer = Home::kNvme, .gradients = Home::kHost};
  const Architecture arch = small_arch(kLayers);
  const Schedule schedule = schedule_of(homes);
  double bytes = 0;
  for (std::size_t idx = 0; idx < schedule.homes.size(); ++idx) {
    bytes += static_cast<double>(optimizer_layout(arch, schedule, kMiB, idx).run_bytes());
  }
  const StepForecast forecast = simulate(machine, schedule);
  EXPECT_NEAR(forecast.load.drive_written_bytes, bytes, 1);
  EXPECT_NEAR(forecast.load.drive_read_bytes, bytes, 1);
  expect_close(forecast.step_s, bytes / 1e9);
  EXPECT_EQ(forecast.bound, Lane::kHostToNvme);
}

TEST(StepSimulator, WeightsOnTheDrivesAreReadForEveryUseAndForTheirUpdate) {
  Machine machine = free_machine();
  machine.drives[0].read_bytes_per_s = 1e9;
  const SliceHomes homes{.weights = Home::kNvme, .optimizer = Home::kHost, .gradients = Home::kHost};
  const StepForecast forecast = simulate(machine, schedule_of(homes));
  const double uses = 2 * (2 * kEndElements + 2 * kLayers * kBlockElements + 256);
  EXPECT_NEAR(forecast.load.drive_read_bytes, uses + 2 * kAllElements, 1);
  EXPECT_NEAR(forecast.load.drive_written_bytes, 2 * kAllElements, 1);
  EXPECT_EQ(forecast.bound, Lane::kNvmeToHost);
}

TEST(StepSimulator, OnTheCpuTheOptimizerTakesCoresFromTheForward) {
  Machine machine = free_machine();
  machine.device.flops_per_s.bf16 = 1e12;
  machine.host.optimizer_bytes_per_s = 1e11;
  const SliceHomes homes{.weights = Home::kHost, .optimizer = Home::kHost, .gradients = Home::kHost};
  const double beside_s = simulate(machine, schedule_of(homes)).step_s;
  machine.device.kind = Processor::kCpu;
  const StepForecast shared = simulate(machine, schedule_of(homes));
  EXPECT_GT(shared.step_s, beside_s * 1.001);
  expect_close(shared.step_s, shared.load.of(Lane::kCompute) + shared.load.of(Lane::kCpuOptimizer));
}

}  // namespace
}  // namespace sluice
