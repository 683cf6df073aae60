// SPDX-License-Identifier: Apache-2.0
#include "cli/train_verb.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/error.h"
#include "base/units.h"
#include "bench/machine_bench.h"
#include "cli/machine_cache.h"
#include "cli/terminal.h"
#include "cli/train_display.h"
#include "cli/work_display.h"
#include "format/model_folder.h"
#include "plan/plan_json.h"
#include "plan/plan_text.h"
#include "plan/planner.h"
#include "train/training_job.h"

namespace sluice {
namespace {

struct TrainArguments {
  std::string config;
  std::string run_dir;
  std::string from;
  std::vector<std::string> overrides;
  bool skip_bad = false;
  bool json = false;
};

// Chunks small enough that small slices do not become large on the drives.
std::uint64_t choose_chunk_bytes(const Architecture& arch) {
  std::uint64_t largest = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    largest = std::max(largest, slice_layout(arch, slice_idx).size_bytes(DType::kBF16));
  }
  return largest >= 16 * kMiB ? kMiB : 64 * kKiB;
}

Home home_of(BoundaryPlace place) {
  switch (place) {
    case BoundaryPlace::kHost:
      return Home::kHost;
    case BoundaryPlace::kNvme:
      return Home::kNvme;
    case BoundaryPlace::kAuto:
    case BoundaryPlace::kDevice:
      break;
  }
  return Home::kDevice;
}

PlanRequest plan_request(const TrainingJob& job, std::size_t num_threads) {
  const TrainConfig& config = job.config();
  const std::uint64_t available = read_memory_info().available_bytes;
  PlanRequest request{.model = config.base_model, .arch = job.model().arch, .dtype = config.dtype};
  request.optimizer = optimizer_state_of(config);
  for (const std::string& directory : job.store_directories()) make_model_folder(directory);
  request.machine = this_machine({.directories = job.store_directories(), .num_threads = num_threads},
                                 machine_cache_path(), Remeasure::kIfChanged);
  request.sequence_len = static_cast<std::int64_t>(config.sequence_len);
  request.micro_batch_size = static_cast<std::int64_t>(config.micro_batch_size);
  request.accumulation = static_cast<std::int64_t>(config.gradient_accumulation_steps);
  request.num_steps = static_cast<std::int64_t>(job.total_steps());
  request.budgets.device = config.gpu_memory_bytes.value_or(available / 10 * 3);
  request.budgets.host = config.host_memory_bytes.value_or(available / 10 * 4);
  // Beside what is free, what an earlier process set aside for this run.
  for (MachineDrive& drive : request.machine.drives) {
    std::error_code none;
    const std::uintmax_t taken = std::filesystem::file_size(drive.name + "/slices.dat", none);
    if (!none) drive.size_bytes += taken;
  }
  request.budgets.drives = request.machine.drives_size_bytes();
  request.buffers.chunk_bytes = choose_chunk_bytes(job.model().arch);
  request.buffers.staging_bytes =
      std::clamp<std::uint64_t>(request.budgets.host / 8, 16 * request.buffers.chunk_bytes, 32 * kMiB);
  // A window is read, one computed, one written at least; more keep the drives busy.
  const std::uint64_t window_bytes =
      optimizer_window_bytes({.dtype = config.dtype, .optimizer = request.optimizer}, request.buffers.chunk_bytes);
  request.buffers.optimizer_windows =
      static_cast<std::size_t>(std::clamp<std::uint64_t>(request.budgets.host / 4 / window_bytes, 3, 8));
  if (config.wave_size) request.wave = static_cast<std::int64_t>(*config.wave_size);
  if (config.group_size) request.group = static_cast<std::int64_t>(*config.group_size);
  if (config.boundaries != BoundaryPlace::kAuto) request.boundaries = home_of(config.boundaries);
  return request;
}

void print_start(TrainingJob& job, const Plan& plan) {
  const RowCounts& rows = job.row_counts();
  fmt::print(stderr, "{}\n", render_plan(plan, terminal_columns(stderr)));
  fmt::print(stderr,
             "data   {} examples to train on, {} held out; {} tokens, {} of them learned; packing fills {:.0f} %\n",
             job.num_train_examples(), job.num_held_out_examples(), rows.num_tokens, rows.num_learned_tokens,
             100 * job.packing_fill());
  if (rows.num_truncated > 0) fmt::print(stderr, "       {} rows were cut off at sequence_len\n", rows.num_truncated);
}

void print_end(const TrainingJob& job, const Plan& plan, const RunSummary& summary, TrainOutput output) {
  const std::string& dir = job.config().output_dir;
  if (output == TrainOutput::kJson) {
    nlohmann::ordered_json json{{"event", "end"},
                                {"steps", summary.steps},
                                {"total_steps", job.total_steps()},
                                {"total_tokens", summary.total_tokens},
                                {"train_loss", summary.loss},
                                {"train_runtime", summary.seconds},
                                {"step_s", summary.step_seconds},
                                {"predicted_step_s", plan.forecast.step_s},
                                {"output_dir", dir}};
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  if (summary.end == RunEnd::kInterrupted) {
    fmt::print(stderr, "stopped after step {}; everything is kept, go on with: sluice resume {}\n", summary.steps, dir);
    return;
  }
  fmt::print(stderr, "{} steps in {:.1f} s, mean loss {:.4f}; a step took {:.3f} s, planned were {:.3f} s\n",
             summary.steps, summary.seconds, summary.loss, summary.step_seconds, plan.forecast.step_s);
  fmt::print(stderr, "model in {0}, curve in {0}/loss_curve.svg\n", dir);
}

// Checkpoints pass through the ring also where no state lives on the drives: then it is what host memory has left.
std::uint64_t least_staging_bytes(const PlanRequest& request) { return 4 * request.buffers.chunk_bytes; }

std::uint64_t staging_bytes(const Plan& plan) {
  if (plan.buffers.staging_bytes > 0) return plan.buffers.staging_bytes;
  const std::uint64_t left = plan.request.budgets.host - plan.memory.host.total() + least_staging_bytes(plan.request);
  return std::min(left, plan.request.buffers.staging_bytes);
}

Plan plan_run(PlanRequest request, TrainOutput output) {
  try {
    Plan plan = make_plan(request);
    if (plan.buffers.staging_bytes > 0) return plan;
    request.budgets.host -= std::min(request.budgets.host, least_staging_bytes(request));
    return make_plan(request);
  } catch (const NoPlanFits& failure) {
    if (output == TrainOutput::kText) fmt::print(stderr, "{}", render_failure(failure, terminal_columns(stderr)));
    throw;
  }
}

void print_return(const GoingBack& going, TrainOutput output) {
  if (output != TrainOutput::kText) return;
  std::string dropped;
  for (const std::string& name : going.dropped) dropped += name + ", ";
  fmt::print(stderr, "going back from step {} to step {}: {}what was logged since is dropped\n", going.from_step,
             going.to_step, dropped.empty() ? "" : dropped + "and ");
}

struct Start {
  JobStart how = JobStart::kNew;
  std::optional<std::uint64_t> from_step;  // of the checkpoint to go back to
};

void run_job(const TrainConfig& config, const Start& start, const TrainArguments& arguments) {
  const TrainOutput output = arguments.json ? TrainOutput::kJson : TrainOutput::kText;
  WorkDisplay work;
  const ProgressSink progress = work.sink();
  TrainingJob job(config, start.how, arguments.skip_bad ? BadRows::kSkip : BadRows::kRefuse, progress);
  work.finish();
  if (start.from_step) {
    job.go_back_to(*start.from_step, [output](const GoingBack& going) { print_return(going, output); });
  }
  const std::size_t num_threads = config.threads.value_or(std::max(1U, std::thread::hardware_concurrency()));
  const PlanRequest request = plan_request(job, num_threads);
  const Plan plan = plan_run(request, output);
  if (output == TrainOutput::kText) print_start(job, plan);
  job.open({.schedule = plan.schedule,
            .buffers = {.chunk_bytes = plan.buffers.chunk_bytes,
                        .staging_bytes = staging_bytes(plan),
                        .optimizer_windows = plan.buffers.optimizer_windows},
            .device_bytes = plan.request.budgets.device,
            .host_bytes = request.budgets.host,
            .num_threads = num_threads},
           to_json(plan).dump(2), progress);
  work.finish();
  if (start.how == JobStart::kResume && output == TrainOutput::kText) {
    fmt::print(stderr, "going on after step {} of {}\n", job.position().step, job.total_steps());
  }
  TrainDisplay display(output);
  const RunSummary summary = job.run(display.observer(), progress);
  print_end(job, plan, summary, output);
  if (summary.end == RunEnd::kInterrupted) throw Cancelled("interrupted");
}

Start start_of(const TrainConfig& config) {
  if (config.resume_from_checkpoint.empty()) return {};
  const bool holds_run = TrainingJob::holds_run(config.output_dir);
  if (config.resume_from_checkpoint == "latest") return {.how = holds_run ? JobStart::kResume : JobStart::kNew};
  const std::uint64_t step = TrainingJob::step_of_checkpoint(config.output_dir, config.resume_from_checkpoint);
  if (!holds_run) {
    throw InvalidInput(fmt::format("resume_from_checkpoint: {} holds no run that {} could be a checkpoint of",
                                   config.output_dir, config.resume_from_checkpoint));
  }
  return {.how = JobStart::kResume, .from_step = step};
}

void train(const TrainArguments& arguments) {
  const ReadConfig read = read_train_config(arguments.config, arguments.overrides);
  for (const std::string& warning : read.warnings) fmt::print(stderr, "sluice: {}\n", warning);
  run_job(read.config, start_of(read.config), arguments);
}

void resume(const TrainArguments& arguments) {
  Start start{.how = JobStart::kResume};
  if (!arguments.from.empty()) start.from_step = TrainingJob::step_of_checkpoint(arguments.run_dir, arguments.from);
  run_job(TrainingJob::config_of(arguments.run_dir, arguments.overrides), start, arguments);
}

}  // namespace

void add_train_verbs(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  CLI::App* const verb = app.add_subcommand("train", "Fine-tune a model as a YAML file says");
  verb->add_option("config", arguments->config, "The configuration: docs/config.md has its keys")->required();
  verb->add_option("overrides", arguments->overrides, "key=value, over what the file says");
  verb->add_flag("--skip-bad", arguments->skip_bad, "Go on without rows that cannot be used");
  verb->add_flag("--json", arguments->json, "One JSON object a line on standard output");
  verb->callback([arguments] { train(*arguments); });

  CLI::App* const again =
      app.add_subcommand("resume", "Go on with a run from its last committed step, or from a checkpoint");
  again->add_option("run", arguments->run_dir, "The run's output_dir")->required();
  again->add_option("overrides", arguments->overrides, "key=value, over what the run began with");
  again->add_option("--from", arguments->from, "Go back to this checkpoint first, such as checkpoint-100");
  again->add_flag("--skip-bad", arguments->skip_bad, "Go on without rows that cannot be used");
  again->add_flag("--json", arguments->json, "One JSON object a line on standard output");
  again->callback([arguments] { resume(*arguments); });
}

}  // namespace sluice
