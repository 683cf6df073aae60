// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_verb.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/units.h"
#include "bench/machine_bench.h"
#include "cli/dtype_option.h"
#include "cli/machine_cache.h"
#include "cli/terminal.h"
#include "model/description.h"
#include "model/known_shapes.h"
#include "plan/plan_json.h"
#include "plan/plan_text.h"
#include "plan/planner.h"

namespace sluice {
namespace {

struct PlanArguments {
  std::string model;
  std::int64_t layers = 0;
  std::int64_t sequence_len = 2048;
  std::int64_t micro_batch_size = 1;
  std::int64_t accumulation = 1;
  std::int64_t steps = 1000;
  std::string dtype = "bf16";
  std::string optimizer = "adamw_torch";
  std::string gpu_memory, host_memory, drive_space;
  std::vector<std::string> caches;
  std::string machine;
  std::int64_t devices = 0;
  std::size_t threads = std::thread::hardware_concurrency();
  std::optional<std::int64_t> wave, group;
  std::string boundaries = "auto";
  bool remeasure = false;
  bool json = false;
};

// A folder's model, or one of a known shape.
Architecture find_architecture(const PlanArguments& arguments) {
  const std::vector<std::string> shapes = known_shapes();
  if (std::find(shapes.begin(), shapes.end(), arguments.model) == shapes.end()) {
    const std::string path = arguments.model + "/config.json";
    if (!std::filesystem::exists(path)) {
      throw InvalidInput(fmt::format("'{}' is neither a model's folder ({} is not there) nor a shape that is known: {}",
                                     arguments.model, path, fmt::join(shapes, ", ")));
    }
    nlohmann::json config = read_config(path).json();
    if (arguments.layers > 0) config["num_hidden_layers"] = arguments.layers;
    return describe_model(ConfigReader(path, config)).arch;
  }
  nlohmann::json config(known_config(arguments.model));
  if (arguments.layers > 0) config["num_hidden_layers"] = arguments.layers;
  return describe_model(ConfigReader(arguments.model, config)).arch;
}

Machine find_machine(const PlanArguments& arguments) {
  if (arguments.machine.empty()) {
    return this_machine({.directories = arguments.caches, .num_threads = std::max<std::size_t>(arguments.threads, 1)},
                        machine_cache_path(), arguments.remeasure ? Remeasure::kAlways : Remeasure::kIfChanged);
  }
  if (!arguments.caches.empty()) {
    throw InvalidInput("--cache names directories of this machine, but --machine describes another with its drives");
  }
  return read_machine(arguments.machine);
}

std::uint64_t bytes_or(const std::string& text, std::uint64_t otherwise) {
  return text.empty() ? otherwise : parse_bytes(text);
}

TierBudgets find_budgets(const PlanArguments& arguments, const Machine& machine) {
  // Some of everything is the system's; a CPU that plays the device has one memory for both.
  const bool is_cpu = machine.device.kind == Processor::kCpu;
  return {.device = bytes_or(arguments.gpu_memory, machine.device.size_bytes / 100 * (is_cpu ? 45 : 95)),
          .host = bytes_or(arguments.host_memory, machine.host.size_bytes / 100 * (is_cpu ? 45 : 90)),
          .drives = bytes_or(arguments.drive_space, machine.drives_size_bytes() / 100 * 95)};
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

void run_plan(const PlanArguments& arguments) {
  PlanRequest request{.model = arguments.model, .arch = find_architecture(arguments)};
  request.machine = find_machine(arguments);
  request.num_devices = arguments.devices > 0 ? arguments.devices : request.machine.num_devices;
  request.dtype = parse_dtype_option(arguments.dtype);
  request.optimizer = parse_optimizer(arguments.optimizer);
  request.sequence_len = arguments.sequence_len;
  request.micro_batch_size = arguments.micro_batch_size;
  request.accumulation = arguments.accumulation;
  request.num_steps = arguments.steps;
  request.budgets = find_budgets(arguments, request.machine);
  request.wave = arguments.wave;
  request.group = arguments.group;
  request.boundaries = parse_boundaries(arguments.boundaries);

  const std::size_t num_columns = terminal_columns(stdout);
  const auto print = [](const nlohmann::ordered_json& json) {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  };
  try {
    const Plan plan = make_plan(request);
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
  verb->add_option("--model", arguments->model, "A model's folder, or a known shape such as llama-3.1-8b")->required();
  verb->add_option("--layers", arguments->layers, "How many layers, instead of all")->check(CLI::PositiveNumber);
  verb->add_option("--sequence-len", arguments->sequence_len, "Tokens of a sequence")->capture_default_str();
  verb->add_option("--micro-batch-size", arguments->micro_batch_size, "Sequences that are computed together")
      ->capture_default_str();
  verb->add_option("--accumulation", arguments->accumulation, "Micro-batches of a step")->capture_default_str();
  verb->add_option("--steps", arguments->steps, "Steps of the run")->capture_default_str();
  verb->add_option("--dtype", arguments->dtype, "bf16 or f32")->capture_default_str();
  verb->add_option("--optimizer", arguments->optimizer, "One of " + optimizer_state_names())->capture_default_str();
  verb->add_option("--gpu-memory", arguments->gpu_memory, "Device memory to use (default: nearly all)");
  verb->add_option("--host-memory", arguments->host_memory, "Host memory to use (default: nearly all)");
  verb->add_option("--cache", arguments->caches, "A directory on each drive to use; repeat for several")
      ->type_name("DIR")
      ->allow_extra_args(false);
  verb->add_option("--drive-space", arguments->drive_space, "Space to use on the drives (default: nearly all free)");
  verb->add_option("--machine", arguments->machine, "Plan for the machine that this file describes (see machines/)")
      ->type_name("FILE");
  verb->add_option("--devices", arguments->devices, "GPUs to use of those the machine has")->check(CLI::PositiveNumber);
  verb->add_option("--threads", arguments->threads, "Threads, where this machine is measured")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verb->add_option("--wave", arguments->wave, "Micro-batches that pass a group together (default: the planner's)");
  verb->add_option("--group", arguments->group, "Blocks of a group (default: the planner's)");
  verb->add_option("--boundaries", arguments->boundaries, "Where blocks' inputs wait: auto, device, host or nvme")
      ->capture_default_str();
  verb->add_flag("--remeasure", arguments->remeasure, "Measure this machine again");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([arguments] { run_plan(*arguments); });
}

}  // namespace sluice
