// SPDX-License-Identifier: Apache-2.0
// What a plan says beside what a run takes, for seven runs of different shape: bytes of every tier are held to the
// plan, times are printed, since other work on the machine changes them.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/sanitizer.h"
#include "base/units.h"
#include "bench/machine_bench.h"
#include "bench/step_bench.h"
#include "model/handmade_model.h"
#include "plan/handmade_plan.h"

namespace sluice {
namespace {

// A checkpoint is kept from early on, and steps are measured that begin with another's update under them.
constexpr int kCheckpointStep = 2;
constexpr int kNumWarmUp = 3;
constexpr int kNumSteps = kIsSanitized ? 1 : 3;

struct Case {
  std::string name;
  std::int64_t num_layers = 4;
  bool tied = true;
  TrainConfig config;
  bool all_on_drives = false;
  bool has_checkpoint = true;
};

TrainConfig shape(std::uint64_t sequence_len, std::uint64_t accumulation, std::uint64_t device_bytes,
                  std::uint64_t host_bytes) {
  TrainConfig config;
  config.sequence_len = sequence_len;
  config.gradient_accumulation_steps = accumulation;
  config.gpu_memory_bytes = device_bytes;
  config.host_memory_bytes = host_bytes;
  config.threads = 2;
  return config;
}

std::vector<Case> cases() {
  std::vector<Case> all{
      {.name = "device", .config = shape(256, 2, 512 * kMiB, 64 * kMiB)},
      {.name = "host, waves of 1", .num_layers = 6, .tied = false, .config = shape(192, 3, 96 * kMiB, 512 * kMiB)},
      {.name = "drives", .num_layers = 6, .config = shape(256, 2, 64 * kMiB, 64 * kMiB), .all_on_drives = true},
      {.name = "drives, groups of 2",
       .tied = false,
       .config = shape(384, 4, 128 * kMiB, 64 * kMiB),
       .all_on_drives = true},
      {.name = "boundaries on the drives", .config = shape(320, 4, 96 * kMiB, 160 * kMiB)},
      {.name = "host and drives, f32", .num_layers = 8, .config = shape(128, 2, 96 * kMiB, 160 * kMiB)},
  };
  all[1].config.wave_size = 1;
  all[3].config.group_size = 2;
  all[3].config.wave_size = 4;
  all[4].config.boundaries = BoundaryPlace::kNvme;
  all[5].config.dtype = DType::kF32;
  all.push_back(all[5]);
  all[6].name = "the same, no checkpoint";
  all[6].has_checkpoint = false;
  if (kIsSanitized) return {all[1], all[2]};
  return all;
}

double ratio(std::uint64_t measured, std::uint64_t planned) {
  return planned == 0 ? (measured == 0 ? 1 : 1e9) : static_cast<double>(measured) / static_cast<double>(planned);
}

// Bytes do not follow from speeds, which take a minute to measure under a sanitizer.
Machine unmeasured_machine() {
  Machine machine = slow_machine();
  machine.device.kind = Processor::kCpu;
  return machine;
}

// The same run with nothing at home in memory, though some of it would fit.
void move_to_drives(RunPlan& run) {
  for (SliceHomes& homes : run.memory.schedule.homes) homes = {Home::kNvme, Home::kNvme, Home::kNvme};
  const PlanRequest& request = run.plan.request;
  run.plan.forecast = StepSimulator(request.arch, request.machine,
                                    {.dtype = request.dtype,
                                     .batch_tokens = request.batch_tokens(),
                                     .sequence_len = request.sequence_len,
                                     .num_micro_batches = request.accumulation},
                                    run.memory.buffers.chunk_bytes)
                          .run(run.memory.schedule);
}

TEST(PlanAccuracy, BytesOfEveryTierAreAsPlanned) {
  const ScratchDirectory place;
  const std::string drive = place.path("drive");
  std::filesystem::create_directory(drive);
  for (const Case& one : cases()) {
    const nlohmann::json config{{"model_type", "llama"},
                                {"hidden_size", 512},
                                {"intermediate_size", 1408},
                                {"num_hidden_layers", one.num_layers},
                                {"num_attention_heads", 8},
                                {"num_key_value_heads", 4},
                                {"vocab_size", 4000},
                                {"tie_word_embeddings", one.tied},
                                {"max_position_embeddings", 512}};
    const ScratchDirectory folder;
    make_random_model(folder.path(), config, {});
    const OpenedModel opened(folder.path());
    const Machine machine = kIsSanitized
                                ? unmeasured_machine()
                                : measure_machine({.directories = {drive},
                                                   .num_threads = 2,
                                                   .arch = &opened.arch(),
                                                   .batch_tokens = static_cast<std::int64_t>(one.config.sequence_len)});
    const RunShape run_shape{.arch = opened.arch(),
                             .machine = machine,
                             .default_budgets = default_budgets(machine, machine.host.size_bytes)};
    PlanRequest request = plan_request(one.config, run_shape);
    request.num_steps = kNumWarmUp + kNumSteps;
    request.checkpoints.reset();
    if (one.has_checkpoint) request.checkpoints = {.num_to_come = 1};
    RunPlan run = plan_run(request, 2);
    if (one.all_on_drives) move_to_drives(run);
    const ScratchDirectory store;
    const StepBenchResult found = run_step_bench({.model = &opened.model(),
                                                  .weights = &opened.slices(),
                                                  .run = &run,
                                                  .directories = {store.path()},
                                                  .num_warm_up = kNumWarmUp,
                                                  .num_steps = kNumSteps,
                                                  .checkpoint_step = one.has_checkpoint ? kCheckpointStep : 0},
                                                 {});
    const StepMemory planned = step_memory(opened.arch(), run.memory.schedule, run.memory.buffers);
    fmt::print("{:<26} step {:>7.1f} ms, {:>7.1f} planned ({:.2f});", one.name, found.step_s * 1e3,
               run.plan.forecast.step_s * 1e3, run.plan.forecast.step_s / found.step_s);
    fmt::print(" bytes over planned: device {:.4f}, host {:.4f}, drives {:.4f} of {}\n",
               ratio(found.device_peak_bytes, planned.device.total()),
               ratio(found.host_peak_bytes, planned.host.total()),
               ratio(found.drives_peak_bytes, planned.drives.total()), format_bytes(planned.drives.total()));
    EXPECT_NEAR(ratio(found.device_peak_bytes, planned.device.total()), 1, 0.05) << one.name;
    EXPECT_NEAR(ratio(found.host_peak_bytes, planned.host.total()), 1, 0.05) << one.name;
    EXPECT_NEAR(ratio(found.drives_peak_bytes, planned.drives.total()), 1, 0.02) << one.name;
  }
}

}  // namespace
}  // namespace sluice
