// SPDX-License-Identifier: Apache-2.0
#include "cli/train_verb.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/config_notes.h"
#include "cli/gpu_report.h"
#include "cli/home_folder.h"
#include "cli/run_machine.h"
#include "cli/terminal.h"
#include "cli/train_display.h"
#include "cli/work_display.h"
#include "io/posix/posix_file.h"
#include "plan/plan_json.h"
#include "plan/plan_text.h"
#include "train/config_homes.h"
#include "train/config_paths.h"
#include "train/lane_trace_file.h"
#include "train/run_notes.h"
#include "train/run_plan.h"
#include "train/training_job.h"

namespace sluice {
namespace {

constexpr const char* kTraceInRun = "output_dir/trace.json";  // --trace without a file

struct TrainArguments {
  std::string config;
  std::string run_dir;
  std::string from;
  std::vector<std::string> overrides;
  std::string trace;  // a file; empty: none
  std::uint64_t trace_steps = TraceLimits().num_steps;
  bool skip_bad = false;
  bool accept_changes = false;
  bool json = false;
};

void print_start(TrainingJob& job, const Plan& plan) {
  const RowCounts& rows = job.row_counts();
  fmt::print(stderr, "{}\n", render_plan(plan, terminal_columns(stderr)));
  fmt::print(stderr,
             "data   {} examples to train on, {} held out; {} tokens, {} of them learned; packing fills {:.0f} %\n",
             job.num_train_examples(), job.num_held_out_examples(), rows.num_tokens, rows.num_learned_tokens,
             100 * job.packing_fill());
  if (rows.num_truncated > 0) fmt::print(stderr, "       {} rows were cut off at sequence_len\n", rows.num_truncated);
}

void print_notes(const TrainingJob& job) {
  for (const std::string& note : run_notes(job.config(), job.model().arch, job.total_steps())) {
    fmt::print(stderr, "note: {}\n", note);
  }
}

// What was planned beside what was seen.
std::string end_table(const TrainingJob& job, const RunPlan& run, const RunSummary& summary, double step_tokens) {
  const Plan& plan = run.plan;
  const StepMemory& planned = plan.memory;
  const SessionUse use = job.session().use();
  const auto rate = [](double tokens, double seconds) {
    return seconds > 0 ? fmt::format("{:.0f}", tokens / seconds) : std::string("–");
  };
  const auto time = [](double seconds) { return seconds > 0 ? fmt::format("{:.3f} s", seconds) : std::string("–"); };
  return render_table({"", "planned", "measured"},
                      {{"step", time(plan.forecast.step_s), time(summary.step_seconds)},
                       {"tokens/s", rate(static_cast<double>(plan.request.step_tokens()), plan.forecast.step_s),
                        rate(step_tokens, summary.step_seconds)},
                       {"device, most", format_bytes(planned.device.total()), format_bytes(use.device.peak_bytes)},
                       {"host, most", format_bytes(planned.host.total()), format_bytes(use.host.peak_bytes)},
                       {"drives, most", format_bytes(planned.drives.total()), format_bytes(use.drives.peak_bytes)}});
}

void print_end(const TrainingJob& job, const RunPlan& run, const RunSummary& summary, const TrainDisplay& display) {
  const std::string& dir = job.config().output_dir;
  if (display.output() == TrainOutput::kJson) {
    const StepMemory& planned = run.plan.memory;
    const SessionUse use = job.session().use();
    nlohmann::ordered_json json{
        {"event", "end"},
        {"steps", summary.steps},
        {"total_steps", job.total_steps()},
        {"total_tokens", summary.total_tokens},
        {"train_loss", summary.loss},
        {"train_runtime", summary.seconds},
        {"step_s", summary.step_seconds},
        {"predicted_step_s", run.plan.forecast.step_s},
        {"peak_bytes",
         {{"device", use.device.peak_bytes}, {"host", use.host.peak_bytes}, {"drives", use.drives.peak_bytes}}},
        {"predicted_peak_bytes",
         {{"device", planned.device.total()}, {"host", planned.host.total()}, {"drives", planned.drives.total()}}},
        {"output_dir", dir}};
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  if (summary.end == RunEnd::kInterrupted) {
    fmt::print(stderr, "stopped after step {}; everything is kept, go on with: sluice resume {}\n", summary.steps, dir);
    return;
  }
  fmt::print(stderr, "{} steps in {:.1f} s, mean loss {:.4f}\n\n{}\n", summary.steps, summary.seconds, summary.loss,
             end_table(job, run, summary, display.mean_step_tokens()));
  fmt::print(stderr, "{1} in {0}, curve in {0}/loss_curve.svg\n", dir,
             job.config().adapter == AdapterKind::kNone ? "model" : "adapter");
}

RunPlan plan_job(const TrainingJob& job, TrainOutput output) {
  const DeviceChoice device = choose_device(job.config().device);
  RunShape shape{
      .arch = job.model().arch,
      .machine = machine_for(job.config(), job.model().arch, device, job.store_directories(), Remeasure::kIfChanged)};
  const std::size_t num_threads = num_threads_of(job.config());
  shape.default_budgets = budgets_here(shape.machine, num_threads, largest_saved_bytes(shape.arch, job.config().dtype));
  shape.num_steps = static_cast<std::int64_t>(job.total_steps());
  shape.checkpoints = job.checkpoints();
  try {
    RunPlan run = plan_run(plan_request(job.config(), shape), num_threads, device);
    require_memory_here(run.plan, num_threads);
    return run;
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

std::string trace_path(const TrainArguments& arguments, const std::string& output_dir) {
  return arguments.trace == kTraceInRun ? output_dir + "/trace.json" : arguments.trace;
}

bool lies_in(const std::string& path, const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path within =
      fs::absolute(path).lexically_normal().lexically_relative(fs::absolute(folder).lexically_normal());
  return !within.empty() && *within.begin() != "..";
}

void run_job(const TrainConfig& config, const Start& start, const TrainArguments& arguments) {
  const TrainOutput output = arguments.json ? TrainOutput::kJson : TrainOutput::kText;
  // Outlive the lanes that tell them.
  const SteadyClock clock;
  PosixFileSystem files;
  std::optional<LaneTraceFile> file;
  LaneTrace trace(clock, LaneTrace::Keep::kBusyTimes, [&](const LaneSpan& span) {
    if (file) file->add(span);
  });
  const auto open_trace = [&](const std::string& path) {
    file.emplace(files, path, TraceLimits{.num_steps = arguments.trace_steps});
  };
  const std::string traced = trace_path(arguments, config.output_dir);
  const bool traced_in_run = !traced.empty() && lies_in(traced, config.output_dir);  // the job makes that folder
  // A file that cannot be is told before anything is read.
  if (!traced.empty() && !traced_in_run) open_trace(traced);
  WorkDisplay work;
  const ProgressSink progress = work.sink();
  TrainingJob job(config, start.how, arguments.skip_bad ? BadRows::kSkip : BadRows::kRefuse, progress,
                  arguments.accept_changes ? ChangedInputs::kAccept : ChangedInputs::kRefuse);
  work.finish();
  if (traced_in_run) {
    job.claim(std::filesystem::path(absolute_path(traced)).lexically_relative(config.output_dir).string());
    open_trace(traced);
  }
  if (start.from_step) {
    job.go_back_to(*start.from_step, [output](const GoingBack& going) { print_return(going, output); });
  }
  RunPlan run = plan_job(job, output);
  if (output == TrainOutput::kText) print_start(job, run.plan);
  print_notes(job);
  run.memory.trace = &trace;
  job.open(run.memory, to_json(run.plan).dump(2), progress);
  work.finish();
  if (output == TrainOutput::kText) {
    fmt::print(stderr, "{}", attention_text(run.memory.device, job.model().arch, job.config().dtype));
  }
  if (start.how == JobStart::kResume && output == TrainOutput::kText) {
    fmt::print(stderr, "going on after step {} of {}\n", job.position().step, job.total_steps());
  }
  // Lanes are at rest until the first step: what they moved to begin with is not part of it.
  if (file) file->begin(clock.now_ns());
  TrainDisplay display(output, {.budgets = run.plan.request.budgets,
                                .use = [&job] { return job.session().use(); },
                                .lanes = [&trace] { return trace.busy_s(); }});
  TrainObserver observer = display.observer();
  observer.on_step = [&, shown = observer.on_step](const StepReport& report) {
    if (file) file->end_step(report.step, clock.now_ns());
    shown(report);
  };
  const RunSummary summary = job.run(observer, progress);
  display.finish();
  if (file) file->finish();
  print_end(job, run, summary, display);
  if (file && output == TrainOutput::kText) {
    fmt::print(stderr, "trace of {} steps in {}: open it at ui.perfetto.dev\n", file->num_steps(), file->path());
  }
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
  const ReadConfig read =
      read_train_config(with_home(arguments.config, "config", home_folder), arguments.overrides, home_folder);
  print_config_notes(read.warnings);
  const TrainConfig config = with_absolute_paths(read.config, std::filesystem::current_path().string());
  run_job(config, start_of(config), arguments);
}

void resume(const TrainArguments& arguments) {
  Start start{.how = JobStart::kResume};
  const std::string run_dir = absolute_path(with_home(arguments.run_dir, "run", home_folder));
  if (!arguments.from.empty()) start.from_step = TrainingJob::step_of_checkpoint(run_dir, arguments.from);
  const TrainConfig config = TrainingJob::config_of(run_dir, arguments.overrides, home_folder);
  // What the run began with was told when it began.
  for (const std::string& warning : read_train_config(run_dir + "/config.yaml", arguments.overrides).warnings) {
    if (warning.starts_with("command line:")) fmt::print(stderr, "sluice: {}\n", warning);
  }
  run_job(config, start, arguments);
}

void add_trace_options(CLI::App& verb, const std::shared_ptr<TrainArguments>& arguments) {
  verb.add_flag(fmt::format("--trace{{{}}}", kTraceInRun), arguments->trace,
                "Write what every lane does to a file that Perfetto opens: --trace=FILE, or trace.json in output_dir");
  verb.add_option("--trace-steps", arguments->trace_steps, "Steps in the trace")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
}

void add_accept_option(CLI::App& verb, const std::shared_ptr<TrainArguments>& arguments) {
  verb.add_flag("--accept-changes", arguments->accept_changes,
                "Go on with a run though its base model, data or template are not what it began with");
}

}  // namespace

void add_train_verbs(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  CLI::App* const verb = app.add_subcommand("train", "Fine-tune a model as a YAML file says");
  verb->add_option("config", arguments->config, "The configuration: docs/config.md has its keys")->required();
  verb->add_option("overrides", arguments->overrides, "key=value, over what the file says");
  verb->add_flag("--skip-bad", arguments->skip_bad, "Go on without rows that cannot be used");
  verb->add_flag("--json", arguments->json, "One JSON object a line on standard output");
  add_trace_options(*verb, arguments);
  add_accept_option(*verb, arguments);
  verb->callback([arguments] { train(*arguments); });

  CLI::App* const again =
      app.add_subcommand("resume", "Go on with a run from its last committed step, or from a checkpoint");
  again->add_option("run", arguments->run_dir, "The run's output_dir")->required();
  again->add_option("overrides", arguments->overrides, "key=value, over what the run began with");
  again->add_option("--from", arguments->from, "Go back to this checkpoint first, such as checkpoint-100");
  again->add_flag("--skip-bad", arguments->skip_bad, "Go on without rows that cannot be used");
  again->add_flag("--json", arguments->json, "One JSON object a line on standard output");
  add_trace_options(*again, arguments);
  add_accept_option(*again, arguments);
  again->callback([arguments] { resume(*arguments); });
}

}  // namespace sluice
