// SPDX-License-Identifier: Apache-2.0
#include "plan/planner.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "plan/kernel_scratch.h"
#include "plan/plan_changes.h"
#include "plan/schedule_search.h"

namespace sluice {
namespace {

// Closer than a forecast can tell.
constexpr double kSameTime = 0.01;

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

// Budgets may have been changed since the request was made, and what is kept of the run.
PlanRequest with_buffers(PlanRequest request, ScratchWish wish) {
  request.buffers.kept_versions = request.checkpoints && request.budgets.drives > 0
                                      ? kept_versions(*request.checkpoints)
                                      : KeptVersions{.in_commits = std::nullopt};
  if (request.has_kernel_scratch) {
    request.buffers.scratch_bytes = kernel_scratch_bytes(
        request.arch, {request.sequence_len, request.batch_tokens(), request.machine.device.has_cudnn_gradients},
        request.budgets.device, wish);
  }
  return request;
}

}  // namespace

double Plan::run_written_bytes(std::size_t drive_idx) const {
  const double in_steps = step_written_bytes(drive_idx) * static_cast<double>(request.num_steps);
  if (!commits) return in_steps;
  return in_steps +
         commits->count(run_s()) * static_cast<double>(commits->bytes) * request.machine.drive_share(drive_idx);
}

std::optional<double> Plan::run_share_of_life(std::size_t drive_idx) const {
  const MachineDrive& drive = request.machine.drives[drive_idx];
  if (!drive.endurance_bytes) return std::nullopt;
  return run_written_bytes(drive_idx) / static_cast<double>(*drive.endurance_bytes);
}

StepMemory least_memory(const PlanRequest& asked) {
  const PlanRequest request = with_buffers(asked, ScratchWish::kSmall);
  const auto sizes = slice_sizes(request.arch, request.dtype, request.optimizer, request.buffers.chunk_bytes);
  return least_candidate(request, sizes).memory;
}

namespace {

std::optional<Plan> search(const PlanRequest& request) {
  const StepSimulator simulator(request.arch, request.machine,
                                {.dtype = request.dtype,
                                 .optimizer = request.optimizer,
                                 .batch_tokens = request.batch_tokens(),
                                 .sequence_len = request.sequence_len,
                                 .num_micro_batches = request.accumulation},
                                request.buffers.chunk_bytes);
  const std::vector<Candidate> candidates = find_candidates(request, simulator);
  std::vector<std::pair<const Candidate*, StepForecast>> simulated;
  double fastest_s = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) {
    if (candidate.least_step_s * (1 + kSameTime) >= fastest_s) break;
    simulated.emplace_back(&candidate, simulator.run(candidate.placed.schedule));
    fastest_s = std::min(fastest_s, simulated.back().second.step_s);
  }
  if (simulated.empty()) return std::nullopt;
  // As fast as the fastest, then the drives are spared, then memory.
  const auto [best, forecast] =
      *std::min_element(simulated.begin(), simulated.end(), [&](const auto& a, const auto& b) {
        const auto rank = [&](const auto& one) {
          return std::tuple(one.second.step_s > fastest_s * (1 + kSameTime), one.second.load.drive_written_bytes,
                            one.first->memory_bytes(), one.second.step_s);
        };
        return rank(a) < rank(b);
      });
  CHECK(step_memory(request.arch, best->placed.schedule, best->placed.buffers) == best->placed.memory,
        "the search counts as the trainer allocates");
  return Plan{.request = request,
              .schedule = best->placed.schedule,
              .buffers = best->placed.buffers,
              .memory = best->placed.memory,
              .forecast = forecast};
}

}  // namespace

std::optional<Plan> find_plan(const PlanRequest& request) {
  check(request);
  std::optional<Plan> plan = search(with_buffers(request, ScratchWish::kLarge));
  if (plan || !request.has_kernel_scratch) return plan;
  return search(with_buffers(request, ScratchWish::kSmall));
}

namespace {

// What the smallest schedule lacks.
std::string what_is_missing(const PlanRequest& request) {
  const StepMemory least = least_memory(request);
  const TierBudgets& budgets = request.budgets;
  if (least.device.total() <= budgets.device && least.host.total() <= budgets.host && budgets.drives > 0) {
    const std::uint64_t needed = least.drives.total();
    return fmt::format(
        "the drives have no room for the run: it needs {} there, {} of it for what is kept, and {} are free: free {} "
        "more, or keep fewer checkpoints (save_total_limit)",
        format_bytes(needed), format_bytes(least.drives.checkpoints), format_bytes(budgets.drives),
        format_bytes(needed - std::min(needed, budgets.drives)));
  }
  const auto tier = [](std::uint64_t needed, const char* what, std::uint64_t there) {
    return fmt::format("{} of {} ({} given)", format_bytes(needed), what, format_bytes(there));
  };
  const std::string memory = fmt::format("no schedule fits: the smallest needs {}, {}",
                                         tier(least.device.total(), "device memory", budgets.device),
                                         tier(least.host.total(), "host memory", budgets.host));
  if (budgets.drives == 0 && least.drives.total() == 0) {
    return memory + ", and there is no cache directory to put the rest";
  }
  return memory + " and " + tier(least.drives.total(), "the drives", budgets.drives);
}

}  // namespace

Plan make_plan(const PlanRequest& request) {
  std::optional<Plan> plan = find_plan(request);
  if (plan) return *std::move(plan);
  throw NoPlanFits(what_is_missing(request), find_changes(request));
}

}  // namespace sluice
