// SPDX-License-Identifier: Apache-2.0
#include "train/run_plan.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/cpu.h"
#include "base/log.h"
#include "model/adapter_layout.h"
#include "model/slice_layout.h"
#include "plan/step_memory.h"
#include "tier/store_space.h"

namespace sluice {
namespace {

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

// Checkpoints pass through the ring also where no state lives on the drives: then it is what host memory has left, and
// at least this.
std::uint64_t least_staging_bytes(const PlanRequest& request) { return 4 * request.buffers.chunk_bytes; }

// What a user could change where the request fits, but not beside so much of host memory.
std::vector<PlanChange> changes_beside(const PlanRequest& request, std::uint64_t taken_bytes,
                                       const std::vector<PlanChange>& changes_of_rest) {
  std::vector<PlanChange> changes;
  PlanChange more{.key = "host_memory", .request = request};
  std::uint64_t& host_bytes = more.request.budgets.host;
  host_bytes = round_up(host_bytes + taken_bytes, kMiB);
  more.text = fmt::format("host_memory {} instead of {}", format_bytes(host_bytes), format_bytes(request.budgets.host));
  const bool is_cpu = request.machine.device.kind == Processor::kCpu;
  if (host_bytes + (is_cpu ? request.budgets.device : 0) <= request.machine.host.size_bytes) changes.push_back(more);
  for (PlanChange change : changes_of_rest) {
    if (change.key.find("host_memory") != std::string::npos) continue;
    change.request.budgets.host = request.budgets.host;
    changes.push_back(std::move(change));
  }
  return changes;
}

// The ring counts as any other buffer, also where the search had no need of one.
Plan plan_with_staging(const PlanRequest& request) {
  Plan plan = make_plan(request);
  if (plan.buffers.staging_bytes > 0) return plan;
  const std::uint64_t least_bytes = least_staging_bytes(request);
  if (request.budgets.host < least_bytes) {
    const std::uint64_t needed_bytes = round_up(plan.memory.host.total() + least_bytes, kMiB);
    throw NoPlanFits(
        fmt::format("host_memory is {}, and this run takes at least {}: checkpoints pass through {} of it",
                    format_bytes(request.budgets.host), format_bytes(needed_bytes), format_bytes(least_bytes)),
        changes_beside(request, needed_bytes - request.budgets.host, {}));
  }
  PlanRequest rest = request;
  rest.budgets.host -= least_bytes;
  try {
    plan = make_plan(rest);
  } catch (const NoPlanFits& failure) {
    throw NoPlanFits(fmt::format("no schedule fits host_memory {} once checkpoints have {} of it to pass through",
                                 format_bytes(request.budgets.host), format_bytes(least_bytes)),
                     changes_beside(request, least_bytes, failure.changes()));
  }
  plan.request.budgets = request.budgets;
  if (plan.buffers.staging_bytes > 0) return plan;
  plan.buffers.staging_bytes = std::min(request.budgets.host - plan.memory.host.total(), request.buffers.staging_bytes);
  plan.memory = step_memory(request.arch, plan.schedule, plan.buffers);
  return plan;
}

// Adds timed commits, which take space on the drives for one more version of the state. Left out, unless the user set
// the interval, if the run may end before the first of them or the drives lack the space.
Plan plan_with_commits(const PlanRequest& request) {
  constexpr double kSurelyShorter = 0.5;  // share of the interval; step time forecasts are more accurate
  Plan plan = plan_with_staging(request);
  const std::uint64_t bytes = commit_bytes(request.arch, plan.schedule, plan.buffers);
  if (bytes == 0 || !request.checkpoints || request.budgets.drives == 0) return plan;
  const CommitPlan commits = plan_commits(request.machine, bytes, request.commit_every_s);
  if (plan.run_s() < commits.every_s * kSurelyShorter && !request.commit_every_s) return plan;
  PlanRequest timed = request;
  timed.checkpoints->has_commits_between = true;
  try {
    plan = plan_with_staging(timed);
  } catch (const NoPlanFits&) {
    if (request.commit_every_s) throw;
    log_warning("the drives have no room for commits between checkpoints: a crash loses what came after the last one");
    return plan;
  }
  const std::uint64_t timed_bytes = commit_bytes(request.arch, plan.schedule, plan.buffers);
  if (timed_bytes > 0) plan.commits = plan_commits(request.machine, timed_bytes, request.commit_every_s);
  return plan;
}

}  // namespace

TierBudgets default_budgets(const Machine& machine, std::uint64_t free_host_bytes) {
  const bool is_cpu = machine.device.kind == Processor::kCpu;
  Machine left = machine;
  for (MachineDrive& drive : left.drives) drive.size_bytes -= std::min(drive.size_bytes, kDriveMarginBytes);
  if (!is_cpu && machine.device.shares_host_memory) {
    // Integrated card: both budgets come from one memory, and the card's is at most half of it.
    return {.device = std::min(machine.device.size_bytes, free_host_bytes) / 100 * 45,
            .host = free_host_bytes / 100 * 45,
            .drives = left.drives_size_bytes()};
  }
  return {.device = is_cpu ? free_host_bytes / 100 * 30 : machine.device.size_bytes / 100 * 95,
          .host = free_host_bytes / 100 * (is_cpu ? 40 : 90),
          .drives = left.drives_size_bytes()};
}

std::uint64_t largest_saved_bytes(const Architecture& arch, DType dtype) {
  std::uint64_t largest = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    largest = std::max(largest, trained_layout(arch, slice_idx).size_bytes(trained_dtype(arch, dtype)));
  }
  return largest;
}

std::uint64_t peak_host_bytes(const Plan& plan, ArenaBytes arena) {
  const Architecture& arch = plan.request.arch;
  const bool is_cpu = plan.schedule.device == DeviceKind::kCpu;
  std::uint64_t stepping = plan.memory.host.total();
  if (is_cpu) {
    stepping += arena == ArenaBytes::kReserved ? plan.request.budgets.device : plan.memory.device.total();
  }
  std::uint64_t filled = plan.memory.host.buffers + unpacked_bytes(arch, plan.schedule);
  std::uint64_t largest = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    const std::uint64_t bytes = weight_bytes(arch, plan.schedule, slice_idx);
    const Home home = plan.schedule.homes[slice_idx].weights;
    largest = std::max(largest, bytes);
    if (home == Home::kHost || (home == Home::kDevice && is_cpu)) filled += bytes;
  }
  return std::max(stepping + largest_saved_bytes(arch, plan.request.dtype), filled + largest);
}

PlanRequest plan_request(const TrainConfig& config, const RunShape& shape) {
  // To a planner that would be no drives at all; a run is kept on them in any case.
  if (!shape.machine.drives.empty() && shape.default_budgets.drives == 0) {
    throw NoPlanFits(
        fmt::format("the drives have no room for the run: on one of them at most {} are free, and so much is "
                    "kept back: free some, or name another drive (cache)",
                    format_bytes(kDriveMarginBytes)),
        {});
  }
  PlanRequest request{.model = config.base_model, .arch = shape.arch, .machine = shape.machine};
  request.num_devices = shape.num_devices;
  request.dtype = config.dtype;
  request.optimizer = optimizer_state_of(config);
  request.sequence_len = static_cast<std::int64_t>(config.sequence_len);
  request.micro_batch_size = static_cast<std::int64_t>(config.micro_batch_size);
  request.accumulation = static_cast<std::int64_t>(config.gradient_accumulation_steps);
  request.num_steps = shape.num_steps;
  request.checkpoints = shape.checkpoints;
  request.commit_every_s = config.commit_every_s;
  request.budgets = {.device = config.gpu_memory_bytes.value_or(shape.default_budgets.device),
                     .host = config.host_memory_bytes.value_or(shape.default_budgets.host),
                     .drives = shape.default_budgets.drives};
  request.buffers.chunk_bytes = choose_chunk_bytes(shape.arch);
  request.buffers.staging_bytes =
      std::clamp<std::uint64_t>(request.budgets.host / 8, 16 * request.buffers.chunk_bytes, 32 * kMiB);
  request.has_kernel_scratch = shape.machine.device.kind == Processor::kGpu;
  // A window is read, one computed, one written at least; more keep the drives busy.
  const std::uint64_t window_bytes = optimizer_window_bytes(
      shape.arch, {.dtype = config.dtype, .optimizer = request.optimizer}, request.buffers.chunk_bytes);
  request.buffers.optimizer_windows =
      static_cast<std::size_t>(std::clamp<std::uint64_t>(request.budgets.host / 4 / window_bytes, 3, 8));
  if (config.wave_size) request.wave = static_cast<std::int64_t>(*config.wave_size);
  if (config.group_size) request.group = static_cast<std::int64_t>(*config.group_size);
  request.may_store = config.recompute == Recompute::kAuto;
  if (config.boundaries != BoundaryPlace::kAuto) request.boundaries = home_of(config.boundaries);
  return request;
}

RunPlan plan_run(const PlanRequest& request, std::size_t num_threads, const DeviceChoice& device) {
  RunPlan run{.plan = plan_with_commits(request)};
  run.memory = {.schedule = run.plan.schedule,
                .buffers = run.plan.buffers,
                .device_bytes = request.budgets.device,
                .host_bytes = request.budgets.host,
                .device = device,
                .num_threads = num_threads,
                .commit_every_s = run.plan.commits ? run.plan.commits->every_s : 0};
  return run;
}

std::vector<std::string> drive_directories(const TrainConfig& config) {
  namespace fs = std::filesystem;
  const std::vector<std::string> wanted = config.cache.empty() ? std::vector{config.output_dir} : config.cache;
  std::vector<std::string> directories;
  for (const std::string& directory : wanted) {
    fs::path path = fs::absolute(directory).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    while (!fs::exists(path) && path.has_relative_path()) path = path.parent_path();
    directories.push_back(path.string());
  }
  return directories;
}

std::size_t num_threads_of(const TrainConfig& config) { return config.threads.value_or(num_usable_cores()); }

}  // namespace sluice
