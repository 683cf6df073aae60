// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_step_verb.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "base/worker_team.h"
#include "bench/step_bench.h"
#include "cli/config_notes.h"
#include "cli/dtype_option.h"
#include "cli/home_folder.h"
#include "cli/run_machine.h"
#include "cli/terminal.h"
#include "cli/work_display.h"
#include "format/checkpoint.h"
#include "format/model_folder.h"
#include "format/whole_file.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "model/known_shapes.h"
#include "model/own_head.h"
#include "model/random_weights.h"
#include "plan/plan_json.h"
#include "train/config_homes.h"
#include "train/trained_model.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct StepArguments {
  std::vector<std::string> words;           // a configuration and key=value, or key=value alone
  std::vector<const CLI::Option*> instead;  // of a configuration; owned by the verb
  std::string model;
  std::int64_t layers = 0;
  std::uint64_t sequence_len = 512, micro_batch_size = 1, accumulation = 1;
  std::string dtype = "bf16";
  std::string device = "auto";
  std::string gpu_memory, host_memory;
  std::vector<std::string> caches;
  std::uint64_t threads = 0, wave = 0, group = 0;
  int steps = 5;
  int warm_up = 2;
  std::string trace;
  bool json = false;
};

// What a bench leaves on the drives goes with it.
class Leftovers {
 public:
  explicit Leftovers(const std::vector<std::string>& directories) : Leftovers() {
    for (const std::string& directory : directories) {
      if (std::filesystem::exists(directory)) {
        throw InvalidInput(
            fmt::format("'{}' is there already: another bench runs, or one was killed and it is to be "
                        "removed by hand",
                        directory));
      }
    }
    for (const std::string& directory : directories) {
      make_model_folder(directory);
      directories_.push_back(directory);
    }
  }
  ~Leftovers() {
    for (const std::string& directory : directories_) {
      std::error_code ignored;
      std::filesystem::remove_all(directory, ignored);
    }
  }
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

 private:
  Leftovers() = default;  // once it is through, the destructor removes also what a failure leaves

  std::vector<std::string> directories_;  // that were made
};

bool is_shape(const std::string& model) {
  const std::vector<std::string> shapes = known_shapes();
  return std::find(shapes.begin(), shapes.end(), model) != shapes.end();
}

// As a configuration would say it. Tokens are random: there is no data set to name.
std::string text_of(const StepArguments& arguments) {
  Json json{{"base_model", arguments.model},
            {"datasets", Json::array({{{"path", "random tokens"}}})},
            {"sequence_len", arguments.sequence_len},
            {"micro_batch_size", arguments.micro_batch_size},
            {"gradient_accumulation_steps", arguments.accumulation},
            {"dtype", parse_dtype_option(arguments.dtype) == DType::kBF16 ? "bf16" : "fp32"},
            {"device", arguments.device},
            {"cache", arguments.caches}};
  if (!arguments.gpu_memory.empty()) json["gpu_memory"] = arguments.gpu_memory;
  if (!arguments.host_memory.empty()) json["host_memory"] = arguments.host_memory;
  if (arguments.threads > 0) json["threads"] = arguments.threads;
  if (arguments.wave > 0) json["wave_size"] = arguments.wave;
  if (arguments.group > 0) json["group_size"] = arguments.group;
  return json.dump();
}

TrainConfig config_of(const StepArguments& arguments) {
  std::vector<std::string> overrides = arguments.words;
  ReadConfig read;
  if (!overrides.empty() && overrides.front().find('=') == std::string::npos) {
    for (const CLI::Option* const option : arguments.instead) {
      if (option->count() == 0) continue;
      throw InvalidInput(fmt::format("'{}' is a configuration, which says what {} would: leave one out",
                                     overrides.front(), option->get_name()));
    }
    const std::string path = overrides.front();
    overrides.erase(overrides.begin());
    read = read_train_config(with_home(path, "config", home_folder), overrides, home_folder);
  } else {
    if (arguments.model.empty() || arguments.caches.empty()) {
      throw InvalidInput("there is nothing to run: name a configuration, or --model and --cache");
    }
    read = parse_train_config(text_of(arguments), "bench step", overrides, home_folder);
  }
  print_config_notes(read.warnings);
  return read.config;
}

// Random weights of a known shape, in a folder.
void make_model(const StepArguments& arguments, const TrainConfig& config, const std::string& folder,
                const ProgressSink& progress) {
  nlohmann::json shape(known_config(config.base_model));
  if (arguments.layers > 0) shape["num_hidden_layers"] = arguments.layers;
  // As it will be kept: a model in bf16 may not fit where one in 4 bits does.
  if (config.load_in_4bit && can_be_stored_packed(describe_model(ConfigReader(config.base_model, shape)))) {
    shape["quantization_config"] = nlohmann::json(nf4_quantization_config(config.dtype));
  }
  const ModelDescription model = describe_model(ConfigReader(config.base_model, shape));
  PosixFileSystem files;
  ThreadsEngine engine(2);
  WorkerTeam team(num_threads_of(config));
  CheckpointWriter writer(files, engine, folder, {.tensors = plan_tensors(model, config.dtype)});
  write_random_weights(writer, model, {.dtype = config.dtype}, team, progress);
  writer.finish();
  write_whole_file(files, engine, folder + "/config.json", shape.dump(2) + "\n");
}

Json to_json(const StepBenchResult& result, const RunPlan& run) {
  Json steps = Json::array();
  for (const StepBenchResult::Step& step : result.steps) {
    steps.push_back({{"step_s", step.seconds},
                     {"bound_s", step.bound_s},
                     {"lanes", lanes_json(step.busy_s)},
                     {"read_bytes", step.read_bytes},
                     {"written_bytes", step.written_bytes},
                     {"drives_s", step.drives_s}});
  }
  Json drives = Json::array();
  for (const MachineDrive& drive : result.drives) {
    drives.push_back({{"read_bytes_per_s", drive.read_bytes_per_s},
                      {"write_bytes_per_s", drive.write_bytes_per_s},
                      {"mixed_bytes_per_s", drive.mixed_bytes_per_s}});
  }
  const Plan& plan = run.plan;
  const StepMemory& memory = plan.memory;
  const auto tier = [](std::uint64_t planned, std::uint64_t measured) {
    return Json{{"planned", planned}, {"peak", measured}};
  };
  return {{"step_s", result.step_s},
          {"bound_s", result.bound_s},
          {"ratio", result.ratio},
          {"bound", name(result.bound)},
          {"lanes", lanes_json(result.busy_s)},
          {"drives_s", result.drives_s},
          {"drives", drives},
          {"tokens_per_s", static_cast<double>(plan.request.step_tokens()) / result.step_s},
          {"planned",
           {{"step_s", plan.forecast.step_s},
            {"bound", name(plan.forecast.bound)},
            {"lanes", lanes_json(plan.forecast.load.busy_s)}}},
          {"bytes",
           {{"device", tier(memory.device.total(), result.device_peak_bytes)},
            {"host", tier(memory.host.total(), result.host_peak_bytes)},
            {"drives", tier(memory.drives.total(), result.drives_peak_bytes)}}},
          {"peak_rss_bytes", result.peak_rss_bytes},
          {"setup", {{"memory_s", result.memory_s}, {"load_s", result.load_s}}},
          {"steps", steps}};
}

std::string to_text(const StepBenchResult& result, const RunPlan& run) {
  const Plan& plan = run.plan;
  const auto seconds = [](double value) { return value > 0 ? fmt::format("{:.3f} s", value) : std::string("–"); };
  std::vector<std::vector<std::string>> rows;
  for (std::size_t idx = 0; idx < kNumLanes; ++idx) {
    rows.push_back({std::string(name(static_cast<Lane>(idx))), seconds(result.busy_s[idx]),
                    fmt::format("{:.0f} %", 100 * result.busy_s[idx] / result.step_s),
                    seconds(plan.forecast.load.busy_s[idx])});
  }
  rows.push_back({"step", seconds(result.step_s), "", seconds(plan.forecast.step_s)});
  const StepMemory& memory = plan.memory;
  const auto peak = [](std::uint64_t planned, std::uint64_t measured) {
    return fmt::format("{} ({} planned)", format_bytes(measured), format_bytes(planned));
  };
  return fmt::format(
      "{}\n{} bounds a step: {:.2f} times its busy time. {:.0f} tokens/s; medians of {} steps.\n"
      "What it read and wrote takes the drives {} at the speeds that they keep up.\n"
      "At most: device {}, host {}, drives {}; process {}.\n"
      "Before the first step: {} to take the memory, {} to load the model.\n",
      render_table({"lane", "busy", "of a step", "planned"}, rows), name(result.bound), result.ratio,
      static_cast<double>(plan.request.step_tokens()) / result.step_s, result.steps.size(), seconds(result.drives_s),
      peak(memory.device.total(), result.device_peak_bytes), peak(memory.host.total(), result.host_peak_bytes),
      peak(memory.drives.total(), result.drives_peak_bytes), format_bytes(result.peak_rss_bytes),
      seconds(result.memory_s), seconds(result.load_s));
}

void bench_step(const StepArguments& arguments) {
  const TrainConfig config = config_of(arguments);
  const DeviceChoice device = choose_device(config.device);
  const std::vector<std::string> drives = drive_directories(config);
  std::vector<std::string> stores;
  stores.reserve(drives.size());
  for (std::size_t idx = 0; idx < drives.size(); ++idx) {
    stores.push_back(fmt::format("{}/sluice-bench-step-{}", drives[idx], idx));
  }
  const bool made = is_shape(config.base_model);
  if (!made && arguments.layers > 0) {
    throw InvalidInput(
        fmt::format("--layers is {}, but '{}' is not a known shape, and a folder's model has the layers that it has: "
                    "leave --layers "
                    "out, or name one of {}",
                    arguments.layers, config.base_model, fmt::join(known_shapes(), ", ")));
  }
  const std::string folder = made ? drives.front() + "/sluice-bench-step-model" : config.base_model;
  WorkDisplay display;
  std::vector<std::string> own = stores;
  if (made) own.push_back(folder);
  const Leftovers leftovers(own);
  if (made) make_model(arguments, config, folder, display.sink());

  PosixFileSystem files;
  ThreadsEngine engine(2);
  ModelDescription described = describe_trained_model(files, folder, config);
  const Checkpoint checkpoint(files, engine, folder);
  const ModelDescription model = with_own_head(std::move(described), checkpoint);
  const CheckpointSlices slices(checkpoint, model);
  RunShape shape{.arch = model.arch,
                 .machine = machine_for(config, model.arch, device, stores, Remeasure::kIfChanged, display.sink())};
  shape.default_budgets =
      budgets_here(shape.machine, num_threads_of(config), largest_saved_bytes(shape.arch, config.dtype));
  PlanRequest request = plan_request(config, shape);
  request.checkpoints.reset();  // none is taken
  const RunPlan run = plan_run(request, num_threads_of(config), device);
  const StepBenchResult result = run_step_bench({.model = &model,
                                                 .weights = &slices,
                                                 .run = &run,
                                                 .directories = stores,
                                                 .momentum = config.momentum,
                                                 .num_warm_up = arguments.warm_up,
                                                 .num_steps = arguments.steps,
                                                 .trace_path = arguments.trace,
                                                 .measures_drives = true},
                                                display.sink());
  display.finish();
  if (arguments.json) {
    fmt::print("{}\n", to_json(result, run).dump());
  } else {
    fmt::print("{}", to_text(result, run));
  }
}

}  // namespace

void add_bench_step_verb(CLI::App& bench) {
  // Owned by the verb's callback and by the options that fill it in before that runs.
  const auto arguments = std::make_shared<StepArguments>();
  CLI::App* const verb =
      bench.add_subcommand("step", "Train a few steps on random tokens: each lane's busy time beside the step's");
  verb->add_option("words", arguments->words, "A training configuration, then key=value over what it says")
      ->type_name("[CONFIG] [KEY=VALUE ...]");
  arguments->instead = {
      verb->add_option("--model,--shape", arguments->model, "A model's folder, or a known shape such as qwen2.5-0.5b"),
      verb->add_option("--layers", arguments->layers, "Of a known shape: how many layers, instead of all")
          ->check(CLI::PositiveNumber),
      verb->add_option("--sequence-len,--seq", arguments->sequence_len, "Tokens of a sequence")
          ->capture_default_str()
          ->check(CLI::PositiveNumber),
      verb->add_option("--micro-batch-size,--micro-batch", arguments->micro_batch_size,
                       "Sequences that are computed together")
          ->capture_default_str()
          ->check(CLI::PositiveNumber),
      verb->add_option("--accumulation,--accumulate", arguments->accumulation, "Micro-batches of a step")
          ->capture_default_str()
          ->check(CLI::PositiveNumber),
      verb->add_option("--dtype", arguments->dtype, "bf16 or f32")->capture_default_str(),
      verb->add_option("--device", arguments->device, "auto, cpu or cuda")->capture_default_str(),
      verb->add_option("--gpu-memory", arguments->gpu_memory, "Device memory to use"),
      verb->add_option("--host-memory", arguments->host_memory, "Host memory to use"),
      verb->add_option("--cache", arguments->caches, "A directory on each drive to use; repeat for several")
          ->type_name("DIR")
          ->allow_extra_args(false),
      verb->add_option("--threads", arguments->threads, "Threads (default: one for each core)")
          ->check(CLI::Range(1, 1024)),
      verb->add_option("--wave", arguments->wave, "Micro-batches that pass a group together"),
      verb->add_option("--group", arguments->group, "Blocks of a group")};
  verb->add_option("--steps", arguments->steps, "Steps that are measured; medians are printed")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  verb->add_option("--warm-up", arguments->warm_up, "Steps before those")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  verb->add_option("--trace", arguments->trace, "Write the lanes' spans to a file that Perfetto opens")
      ->type_name("FILE");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([arguments] { bench_step(*arguments); });
}

}  // namespace sluice
