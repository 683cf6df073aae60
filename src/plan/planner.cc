// SPDX-License-Identifier: Apache-2.0
#include "plan/planner.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "plan/plan_changes.h"
#include "plan/schedule_search.h"

namespace sluice {
namespace {

// Closer than a forecast can tell.
constexpr double kSameTime = 0.002;

constexpr std::int64_t kMostTokens = std::int64_t{1} << 32;

void require_range(const char* key, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  throw InvalidInput(fmt::format("{} is {}; expected a number from 1 to {}", key, value, most));
}

void require_budget(const char* key, std::uint64_t wanted, std::uint64_t there, const Machine& machine) {
  if (wanted <= there) return;
  throw InvalidInput(
      fmt::format("{} is {}, but {} has {}", key, format_bytes(wanted), machine.name, format_bytes(there)));
}

void check(const PlanRequest& request) {
  const Machine& machine = request.machine;
  if (request.num_devices > 1) {
    throw InvalidInput(fmt::format(
        "{} has {} GPUs, and several GPUs come with ranks, which are not there yet: plan for one of them (--devices 1)",
        machine.name, request.num_devices));
  }
  require_range("sequence_len", request.sequence_len, kMostTokens);
  require_range("micro_batch_size", request.micro_batch_size, kMostTokens / request.sequence_len);
  require_range("gradient_accumulation_steps", request.accumulation, 65536);
  require_range("steps", request.num_steps, std::int64_t{1} << 40);
  if (request.wave) require_range("wave_size", *request.wave, request.accumulation);
  if (request.group) require_range("group_size", *request.group, request.arch.num_layers());
  require_budget("gpu_memory", request.budgets.device, machine.device.size_bytes, machine);
  require_budget("host_memory", request.budgets.host, machine.host.size_bytes, machine);
  if (machine.device.kind == Processor::kCpu) {
    require_budget("gpu_memory and host_memory together", request.budgets.device + request.budgets.host,
                   machine.host.size_bytes, machine);
  }
  require_budget("drive space", request.budgets.drives, machine.drives_size_bytes(), machine);
  if (request.boundaries == Home::kNvme && request.budgets.drives == 0) {
    throw InvalidInput("boundaries are to live on the drives, but there is no cache directory");
  }
}

bool is_better(const Candidate& a, const StepForecast& a_time, const Candidate& b, const StepForecast& b_time) {
  if (a_time.step_s < b_time.step_s * (1 - kSameTime)) return true;
  if (a_time.step_s > b_time.step_s * (1 + kSameTime)) return false;
  return std::pair(a_time.load.drive_written_bytes, a.memory_bytes()) <
         std::pair(b_time.load.drive_written_bytes, b.memory_bytes());
}

}  // namespace

std::optional<double> Plan::run_share_of_life(std::size_t drive_idx) const {
  const MachineDrive& drive = request.machine.drives[drive_idx];
  if (!drive.endurance_bytes) return std::nullopt;
  return run_written_bytes(drive_idx) / static_cast<double>(*drive.endurance_bytes);
}

StepMemory least_memory(const PlanRequest& request) {
  const auto sizes = slice_sizes(request.arch, request.dtype, request.buffers.chunk_bytes);
  return least_candidate(request, sizes).memory;
}

std::optional<Plan> find_plan(const PlanRequest& request) {
  check(request);
  const StepSimulator simulator(request.arch, request.machine,
                                {.dtype = request.dtype,
                                 .batch_tokens = request.batch_tokens(),
                                 .sequence_len = request.sequence_len,
                                 .num_micro_batches = request.accumulation},
                                request.buffers.chunk_bytes);
  const std::vector<Candidate> candidates = find_candidates(request, simulator);
  const Candidate* best = nullptr;
  StepForecast best_time;
  for (const Candidate& candidate : candidates) {
    if (best != nullptr && candidate.least_step_s * (1 + kSameTime) >= best_time.step_s) break;
    const StepForecast time = simulator.run(candidate.placed.schedule);
    if (best != nullptr && !is_better(candidate, time, *best, best_time)) continue;
    best = &candidate;
    best_time = time;
  }
  if (best == nullptr) return std::nullopt;
  return Plan{.request = request,
              .schedule = best->placed.schedule,
              .buffers = best->placed.buffers,
              .memory = best->placed.memory,
              .forecast = best_time};
}

Plan make_plan(const PlanRequest& request) {
  std::optional<Plan> plan = find_plan(request);
  if (plan) return *std::move(plan);
  const StepMemory least = least_memory(request);
  const auto tier = [](std::uint64_t needed, const char* what, std::uint64_t there) {
    return fmt::format("{} of {} ({} given)", format_bytes(needed), what, format_bytes(there));
  };
  std::string message = fmt::format(
      "no schedule fits: the smallest needs {}, {}", tier(least.device.total(), "device memory", request.budgets.device),
      tier(least.host.total(), "host memory", request.budgets.host));
  if (request.budgets.drives > 0 || least.drives.total() > 0) {
    message += " and " + tier(least.drives.total(), "the drives", request.budgets.drives);
  } else {
    message += ", and there is no cache directory to put the rest";
  }
  throw NoPlanFits(message, find_changes(request));
}

}  // namespace sluice
