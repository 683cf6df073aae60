// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_verb.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/closest_word.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/hub_id.h"
#include "base/units.h"
#include "bench/machine_bench.h"
#include "cli/config_notes.h"
#include "cli/device_option.h"
#include "cli/dtype_option.h"
#include "cli/home_folder.h"
#include "cli/machine_cache.h"
#include "cli/run_machine.h"
#include "cli/scratch_folder.h"
#include "cli/terminal.h"
#include "cli/work_display.h"
#include "format/checkpoint.h"
#include "format/json_text.h"
#include "format/model_folder.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "model/adapter_sites.h"
#include "model/description.h"
#include "model/known_shapes.h"
#include "model/own_head.h"
#include "plan/kernel_scratch.h"
#include "plan/plan_json.h"
#include "plan/plan_text.h"
#include "plan/planner.h"
#include "train/config_homes.h"
#include "train/run_checkpoints.h"
#include "train/run_notes.h"
#include "train/run_plan.h"
#include "train/trained_model.h"
#include "train/training_job.h"

namespace sluice {
namespace {

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides;
  bool skip_bad = false;
  std::string model;
  std::int64_t layers = 0;
  std::string adapter;  // empty: all parameters are trained
  std::int64_t lora_r = 16;
  std::vector<std::string> lora_targets;  // empty: every matrix of a block
  std::int64_t sequence_len = 2048;
  std::int64_t micro_batch_size = 1;
  std::int64_t accumulation = 1;
  std::int64_t steps = 1000;
  std::string dtype = "bf16";
  std::string optimizer = "adamw_torch";
  std::string device = "auto";
  std::string gpu_memory, host_memory, drive_space;
  std::vector<std::string> caches;
  std::string machine;
  std::int64_t devices = 0;
  std::size_t threads = num_usable_cores();
  std::optional<std::int64_t> wave, group;
  std::string boundaries = "auto";
  bool remeasure = false;
  bool json = false;
};

// A plan needs no weights; where they are there, they say whether the head is one of its own.
ModelDescription with_head_of(const std::string& folder, ModelDescription model) {
  PosixFileSystem files;
  if (!model.arch.tied_head || !look_into_model_folder(files, folder).safetensors) return model;
  try {
    ThreadsEngine engine(2);
    const Checkpoint checkpoint(files, engine, folder);
    return with_own_head(model, checkpoint);
  } catch (const Error& error) {
    tell(fmt::format("sluice: planned with a tied head, as config.json has it: {}",
                     on_one_line(error.what(), kMaxSentenceBytes)));
    return model;
  }
}

constexpr const char* kLora = "lora";
constexpr const char* kQlora = "qlora";

ModelDescription with_planned_adapter(const PlanArguments& arguments, ModelDescription model) {
  const bool stored_nf4 = model.stored == BaseFormat::kNf4;
  if (arguments.adapter.empty()) {
    if (stored_nf4) {
      throw InvalidInput(fmt::format(
          "'{}' is in NF4, which is read and not trained: plan it with --adapter qlora, or a configuration with "
          "adapter: qlora",
          arguments.model));
    }
    return model;
  }
  if (arguments.adapter != kLora && arguments.adapter != kQlora) {
    throw InvalidInput(fmt::format("--adapter is '{}'; expected lora or qlora", arguments.adapter));
  }
  const bool packed = stored_nf4 || arguments.adapter == kQlora;
  model.arch.adapter = make_adapter(model, {.rank = arguments.lora_r,
                                            .alpha = 2.0 * static_cast<double>(arguments.lora_r),
                                            .base = packed ? BaseFormat::kNf4 : BaseFormat::kPlain,
                                            .targets = arguments.lora_targets});
  return model;
}

// A folder's model, or one of a known shape.
Architecture find_architecture(const PlanArguments& arguments) {
  const std::vector<std::string> shapes = known_shapes();
  if (std::find(shapes.begin(), shapes.end(), arguments.model) == shapes.end()) {
    if (!std::filesystem::exists(arguments.model) && !hub_id_of(arguments.model)) {
      const std::optional<std::string> closest = closest_word(arguments.model, shapes);
      throw InvalidInput(fmt::format("'{}' is neither a model's folder nor a known shape; {}the shapes are {}",
                                     arguments.model, closest ? fmt::format("did you mean {}? ", *closest) : "",
                                     fmt::join(shapes, ", ")));
    }
    PosixFileSystem files;
    const ConfigReader read = read_model_config(look_into_model_folder(files, arguments.model));
    nlohmann::json config = read.json();
    if (arguments.layers > 0) config["num_hidden_layers"] = arguments.layers;
    const ModelDescription model = with_planned_adapter(arguments, describe_model(ConfigReader(read.where(), config)));
    return with_head_of(arguments.model, model).arch;
  }
  nlohmann::json config(known_config(arguments.model));
  if (arguments.layers > 0) config["num_hidden_layers"] = arguments.layers;
  return with_planned_adapter(arguments, describe_model(ConfigReader(arguments.model, config))).arch;
}

std::uint64_t bytes_or(const std::string& text, std::uint64_t otherwise) {
  return text.empty() ? otherwise : parse_bytes(text);
}

Machine find_machine(const PlanArguments& arguments, const Architecture& arch, const ProgressSink& progress) {
  if (arguments.machine.empty()) {
    MachineBenchOptions options{.directories = arguments.caches,
                                .num_threads = std::max<std::size_t>(arguments.threads, 1),
                                .arch = &arch,
                                .batch_tokens = arguments.sequence_len * arguments.micro_batch_size,
                                .device = choose_device(parse_device_option(arguments.device)),
                                .sequence_len = arguments.sequence_len,
                                .progress = progress};
    if (options.device.cuda) {
      options.scratch_bytes = kernel_scratch_bytes(
          arch, {options.sequence_len, options.batch_tokens, options.device.card.has_cudnn_gradients},
          bytes_or(arguments.gpu_memory, options.device.card.memory_bytes / 100 * 95));
    }
    return this_machine(options, machine_cache_path(),
                        arguments.remeasure ? Remeasure::kAlways : Remeasure::kIfChanged);
  }
  if (!arguments.caches.empty()) {
    throw InvalidInput("--cache names directories of this machine, but --machine describes another with its drives");
  }
  return read_machine(arguments.machine);
}

TierBudgets find_budgets(const PlanArguments& arguments, const Machine& machine, const Architecture& arch) {
  const TierBudgets otherwise =
      arguments.machine.empty()
          ? budgets_here(machine, arguments.threads, largest_saved_bytes(arch, parse_dtype_option(arguments.dtype)))
          : default_budgets(machine, machine.host.size_bytes);
  return {.device = bytes_or(arguments.gpu_memory, otherwise.device),
          .host = bytes_or(arguments.host_memory, otherwise.host),
          .drives = bytes_or(arguments.drive_space, otherwise.drives)};
}

std::optional<Home> parse_boundaries(const std::string& text) {
  if (text == "auto") return std::nullopt;
  for (const Home home : {Home::kDevice, Home::kHost, Home::kNvme}) {
    if (text == name(home)) return home;
  }
  throw InvalidInput(fmt::format("--boundaries is '{}'; expected auto, device, host or nvme", text));
}

OptimizerState parse_optimizer(const std::string& text) {
  const std::optional<OptimizerState> state = find_optimizer_state(text);
  if (state) return *state;
  throw InvalidInput(fmt::format("--optimizer is '{}'; expected one of {}", text, optimizer_state_names()));
}

PlanRequest request_of_flags(const PlanArguments& arguments, const ProgressSink& progress) {
  if (arguments.model.empty()) throw InvalidInput("there is nothing to plan: name a configuration, or --model");
  PlanRequest request{.model = arguments.model, .arch = find_architecture(arguments)};
  request.machine = find_machine(arguments, request.arch, progress);
  request.num_devices = arguments.devices > 0 ? arguments.devices : request.machine.num_devices;
  request.dtype = parse_dtype_option(arguments.dtype);
  request.optimizer = parse_optimizer(arguments.optimizer);
  request.sequence_len = arguments.sequence_len;
  request.micro_batch_size = arguments.micro_batch_size;
  request.accumulation = arguments.accumulation;
  request.num_steps = arguments.steps;
  request.budgets = find_budgets(arguments, request.machine, request.arch);
  request.has_kernel_scratch = request.machine.device.kind == Processor::kGpu;
  request.wave = arguments.wave;
  request.group = arguments.group;
  request.boundaries = parse_boundaries(arguments.boundaries);
  return request;
}

// The data is read as a run would, in a folder that is gone afterwards.
void count_steps(TrainConfig config, const PlanArguments& arguments, RunShape& shape, const ProgressSink& progress) {
  const ScratchFolder folder("plan");
  config.output_dir = folder.path();
  config.cache.clear();
  const TrainingJob job(config, JobStart::kNew, arguments.skip_bad ? BadRows::kSkip : BadRows::kRefuse, progress);
  shape.num_steps = static_cast<std::int64_t>(job.total_steps());
  shape.checkpoints = job.checkpoints();
}

// Throws if the path given as a configuration is a model.
void refuse_model_as_config(const std::string& config) {
  const std::vector<std::string> shapes = known_shapes();
  const bool is_shape = std::find(shapes.begin(), shapes.end(), config) != shapes.end();
  if (!is_shape && !std::filesystem::is_directory(config)) return;
  if (is_shape && std::filesystem::exists(config)) return;
  throw InvalidInput(fmt::format("'{0}' is {1}, not a training configuration; plan it with 'sluice plan --model {0}'",
                                 config, is_shape ? "a known shape" : "a directory"));
}

PlanRequest request_of_config(const PlanArguments& arguments, const ProgressSink& progress) {
  refuse_model_as_config(arguments.config);
  const ReadConfig read =
      read_train_config(with_home(arguments.config, "config", home_folder), arguments.overrides, home_folder);
  print_config_notes(read.warnings);
  const TrainConfig& config = read.config;
  PosixFileSystem files;
  RunShape shape{.arch =
                     with_head_of(config.base_model, describe_trained_model(files, config.base_model, config)).arch};
  if (arguments.machine.empty()) {
    shape.machine =
        machine_for(config, shape.arch, choose_device(config.device), TrainingJob::store_directories_of(config),
                    arguments.remeasure ? Remeasure::kAlways : Remeasure::kIfChanged, progress);
    shape.default_budgets =
        budgets_here(shape.machine, num_threads_of(config), largest_saved_bytes(shape.arch, config.dtype));
  } else {
    shape.machine = read_machine(arguments.machine);
    shape.default_budgets = default_budgets(shape.machine, shape.machine.host.size_bytes);
  }
  shape.num_devices = arguments.devices > 0 ? arguments.devices : shape.machine.num_devices;
  // Also for epochs that end in a checkpoint.
  if (!config.max_steps || config.save_strategy == RunStrategy::kEpoch) {
    count_steps(config, arguments, shape, progress);
  } else {
    shape.num_steps = static_cast<std::int64_t>(*config.max_steps);
    shape.checkpoints = run_checkpoints(config, *config.max_steps, {});
  }
  for (const std::string& note : run_notes(config, shape.arch, static_cast<std::uint64_t>(shape.num_steps))) {
    tell("note: " + note);
  }
  return plan_request(config, shape);
}

void run_plan(const PlanArguments& arguments) {
  const bool of_config = !arguments.config.empty();
  const std::size_t num_columns = std::min(output_columns(), terminal_columns(stdout));
  const auto print = [](const nlohmann::ordered_json& json) {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  };
  try {
    std::optional<WorkDisplay> display(std::in_place);
    const ProgressSink progress = display->sink();
    const PlanRequest request =
        of_config ? request_of_config(arguments, progress) : request_of_flags(arguments, progress);
    display.reset();  // removes the live area before the plan is printed
    const Plan plan = of_config ? plan_run(request, 1).plan : make_plan(request);
    if (arguments.machine.empty()) require_memory_here(plan, arguments.threads);
    if (arguments.json) {
      print(to_json(plan));
    } else {
      fmt::print("{}", render_plan(plan, num_columns));
    }
  } catch (const NoPlanFits& failure) {
    // The answer to the question that was asked, and no more than that.
    if (arguments.json) {
      print(to_json(failure));
    } else {
      fmt::print("{}", render_failure(failure, num_columns));
    }
    throw CLI::RuntimeError(failure.exit_code());
  }
}

}  // namespace

void add_plan_verb(CLI::App& app) {
  CLI::App* const verb =
      app.add_subcommand("plan", "Say whether a training run fits, where every byte goes and how long it takes");
  const auto arguments = std::make_shared<PlanArguments>();
  CLI::Option* const config = verb->add_option("config", arguments->config, "A training configuration, as of train");
  verb->add_option("overrides", arguments->overrides, "key=value, over what the file says")->needs(config);
  verb->add_flag("--skip-bad", arguments->skip_bad, "Count steps without rows that cannot be used")->needs(config);
  // Instead of a configuration, which has keys for these.
  const auto flag = [verb, config](const std::string& name, auto& value, const std::string& about) {
    return verb->add_option(name, value, about)->excludes(config);
  };
  flag("--model", arguments->model, "A model's folder, or a known shape such as llama-3.1-8b");
  flag("--layers", arguments->layers, "How many layers, instead of all")->check(CLI::PositiveNumber);
  CLI::Option* const adapter = flag("--adapter", arguments->adapter,
                                    "lora, or qlora: on a base in 4 bits (default: all parameters are trained)");
  flag("--lora-r", arguments->lora_r, "The adapter's rank")
      ->check(CLI::Range(1, 1 << 16))
      ->needs(adapter)
      ->capture_default_str();
  flag("--lora-target-modules", arguments->lora_targets, "The matrices that get one: q_proj,v_proj (default: all)")
      ->needs(adapter)
      ->delimiter(',')
      ->allow_extra_args(false);
  flag("--sequence-len", arguments->sequence_len, "Tokens of a sequence")->capture_default_str();
  flag("--micro-batch-size", arguments->micro_batch_size, "Sequences that are computed together")
      ->capture_default_str();
  flag("--accumulation", arguments->accumulation, "Micro-batches of a step")->capture_default_str();
  flag("--steps", arguments->steps, "Steps of the run")->capture_default_str();
  flag("--dtype", arguments->dtype, "bf16 or f32")->capture_default_str();
  flag("--optimizer", arguments->optimizer, "One of " + optimizer_state_names())->capture_default_str();
  flag("--device", arguments->device, "What computes, where this machine is measured: auto, cpu or cuda")
      ->capture_default_str();
  flag("--gpu-memory", arguments->gpu_memory, "Device memory to use (default: nearly all)");
  flag("--host-memory", arguments->host_memory, "Host memory to use (default: nearly all)");
  flag("--cache", arguments->caches, "A directory on each drive to use; repeat for several")
      ->type_name("DIR")
      ->allow_extra_args(false);
  flag("--drive-space", arguments->drive_space, "Space to use on the drives (default: nearly all free)");
  verb->add_option("--machine", arguments->machine, "Plan for the machine that this file describes (see machines/)")
      ->type_name("FILE");
  verb->add_option("--devices", arguments->devices, "GPUs to use of those the machine has")->check(CLI::PositiveNumber);
  flag("--threads", arguments->threads, "Threads, where this machine is measured")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  flag("--wave", arguments->wave, "Micro-batches that pass a group together (default: the planner's)");
  flag("--group", arguments->group, "Blocks of a group (default: the planner's)");
  flag("--boundaries", arguments->boundaries, "Where blocks' inputs wait: auto, device, host or nvme")
      ->capture_default_str();
  verb->add_flag("--remeasure", arguments->remeasure, "Measure this machine again");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([arguments] { run_plan(*arguments); });
}

}  // namespace sluice
