// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_changes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::size_t kMostChanges = 3;
constexpr std::int64_t kSequenceStep = 64;
constexpr const char* kSomeDrive = "a drive to be added";

struct Attempt {
  PlanChange change;
  double distance = 0;  // how many times more or less, as a logarithm
};

bool could_fit(const PlanRequest& request) { return fits(least_memory(request), request.budgets); }

// The number nearest to `from` in (from, to], or [to, from), that works; working is monotone.
std::optional<std::uint64_t> nearest(std::uint64_t from, std::uint64_t to,
                                     const std::function<bool(std::uint64_t)>& works) {
  if (from == to || !works(to)) return std::nullopt;
  std::uint64_t bad = from;
  std::uint64_t good = to;
  while (std::max(bad, good) - std::min(bad, good) > 1) {
    const std::uint64_t middle = std::min(bad, good) + (std::max(bad, good) - std::min(bad, good)) / 2;
    (works(middle) ? good : bad) = middle;
  }
  return good;
}

double distance(double from, double to) { return from > 0 ? std::abs(std::log(to / from)) : 100; }

// Steps of which budgets are told: fine for small ones, whole for large ones.
std::uint64_t budget_step(std::uint64_t bytes) {
  if (bytes >= 32 * kGiB) return kGiB;
  return bytes >= kGiB ? 256 * kMiB : kMiB;
}

class Changes {
 public:
  explicit Changes(const PlanRequest& request) : request_(request) {}

  std::vector<PlanChange> find() {
    shorter_sequences();
    smaller_batches();
    const Machine& machine = request_.machine;
    const bool shared = machine.device.kind == Processor::kCpu;
    const auto left = [&](std::uint64_t all, std::uint64_t other) { return shared ? all - std::min(all, other) : all; };
    more_memory("gpu_memory", &TierBudgets::device, left(machine.device.size_bytes, request_.budgets.host));
    more_memory("host_memory", &TierBudgets::host, left(machine.host.size_bytes, request_.budgets.device));
    drives();
    fewer_checkpoints();
    more_of_both(request_, "", 0);
    shorter_sequences_and_more_of_both();
    std::stable_sort(attempts_.begin(), attempts_.end(),
                     [](const Attempt& a, const Attempt& b) { return a.distance < b.distance; });
    std::vector<PlanChange> changes;
    for (Attempt& attempt : attempts_) {
      if (changes.size() == kMostChanges) break;
      if (find_plan(attempt.change.request)) changes.push_back(std::move(attempt.change));
    }
    return changes;
  }

 private:
  void shorter_sequences() {
    PlanRequest changed = request_;
    const auto works = [&](std::uint64_t steps) {
      changed.sequence_len = static_cast<std::int64_t>(steps) * kSequenceStep;
      return could_fit(changed);
    };
    const auto now = static_cast<std::uint64_t>((request_.sequence_len + kSequenceStep - 1) / kSequenceStep);
    if (now <= 1) return;
    const auto steps = nearest(now, 1, works);
    if (!steps) return;
    changed.sequence_len = static_cast<std::int64_t>(*steps) * kSequenceStep;
    add("sequence_len", fmt::format("sequence_len {} instead of {}", changed.sequence_len, request_.sequence_len),
        changed, distance(static_cast<double>(request_.sequence_len), static_cast<double>(changed.sequence_len)));
  }

  void smaller_batches() {
    PlanRequest changed = request_;
    const auto works = [&](std::uint64_t size) {
      changed.micro_batch_size = static_cast<std::int64_t>(size);
      return could_fit(changed);
    };
    const auto size = nearest(static_cast<std::uint64_t>(request_.micro_batch_size), 1, works);
    if (!size) return;
    changed.micro_batch_size = static_cast<std::int64_t>(*size);
    add("micro_batch_size", fmt::format("micro_batch_size {} instead of {}", *size, request_.micro_batch_size), changed,
        distance(static_cast<double>(request_.micro_batch_size), static_cast<double>(*size)));
  }

  void more_memory(const char* key, std::uint64_t TierBudgets::*tier, std::uint64_t most_bytes) {
    const std::uint64_t now_bytes = request_.budgets.*tier;
    if (most_bytes <= now_bytes) return;
    const std::uint64_t step = budget_step(now_bytes);
    PlanRequest changed = request_;
    const auto works = [&](std::uint64_t steps) {
      changed.budgets.*tier = std::min(steps * step, most_bytes);
      return could_fit(changed);
    };
    const auto steps = nearest(now_bytes / step, div_ceil(most_bytes, step), works);
    if (!steps) return;
    changed.budgets.*tier = std::min(*steps * step, most_bytes);
    add(key, fmt::format("{} {} instead of {}", key, format_bytes(changed.budgets.*tier), format_bytes(now_bytes)),
        changed, distance(static_cast<double>(now_bytes), static_cast<double>(changed.budgets.*tier)));
  }

  // Where both memories fall short, more of one alone may not do, or may have to be far more.
  void more_of_both(PlanRequest changed, const std::string& before, double how_far) {
    const StepMemory least = least_memory(changed);
    const auto raise = [&](std::uint64_t TierBudgets::*tier, std::uint64_t needed) {
      const std::uint64_t now_bytes = changed.budgets.*tier;
      if (needed <= now_bytes) return false;
      changed.budgets.*tier = round_up(needed, budget_step(needed));
      how_far += distance(static_cast<double>(now_bytes), static_cast<double>(changed.budgets.*tier));
      return true;
    };
    const bool device = raise(&TierBudgets::device, least.device.total());
    // A caller that is given more host memory may make its buffers larger.
    const std::uint64_t host_bytes = least.host.total() + std::min(least.host.total() / 4, 64 * kMiB);
    const bool host = raise(&TierBudgets::host, host_bytes);
    const Machine& machine = changed.machine;
    const std::uint64_t together = changed.budgets.device + changed.budgets.host;
    const bool is_there = changed.budgets.device <= machine.device.size_bytes &&
                          changed.budgets.host <= machine.host.size_bytes &&
                          (machine.device.kind != Processor::kCpu || together <= machine.host.size_bytes);
    if (!device || !host || !is_there || !could_fit(changed)) return;
    add("gpu_memory, host_memory",
        fmt::format("{}gpu_memory {} and host_memory {} instead of {} and {}", before,
                    format_bytes(changed.budgets.device), format_bytes(changed.budgets.host),
                    format_bytes(request_.budgets.device), format_bytes(request_.budgets.host)),
        changed, how_far);
  }

  void shorter_sequences_and_more_of_both() {
    PlanRequest changed = request_;
    changed.sequence_len = static_cast<std::int64_t>(
        round_up(static_cast<std::uint64_t>(request_.sequence_len) / 2, static_cast<std::uint64_t>(kSequenceStep)));
    if (changed.sequence_len >= request_.sequence_len) return;
    more_of_both(changed, fmt::format("sequence_len {} instead of {}, ", changed.sequence_len, request_.sequence_len),
                 distance(static_cast<double>(request_.sequence_len), static_cast<double>(changed.sequence_len)));
  }

  void drives() {
    PlanRequest changed = request_;
    if (changed.machine.drives.empty()) {
      // An ordinary one, to see whether space is all that is missing.
      changed.machine.drives.push_back({.name = kSomeDrive,
                                        .size_bytes = 16 * kTiB,
                                        .read_bytes_per_s = 3e9,
                                        .write_bytes_per_s = 2e9,
                                        .endurance_bytes = std::nullopt});
    }
    const std::uint64_t now_bytes = request_.budgets.drives;
    const std::uint64_t most_bytes = changed.machine.drives_size_bytes();
    const std::uint64_t step = budget_step(std::max(now_bytes, least_memory(request_).host.total()));
    if (most_bytes <= now_bytes) return;
    const auto works = [&](std::uint64_t steps) {
      changed.budgets.drives = std::min(steps * step, most_bytes);
      return could_fit(changed);
    };
    const auto steps = nearest(now_bytes / step, div_ceil(most_bytes, step), works);
    if (!steps) return;
    changed.budgets.drives = std::min(*steps * step, most_bytes);
    const std::string space = format_bytes(changed.budgets.drives);
    add("cache",
        now_bytes == 0 ? fmt::format("a cache directory with {} free", space)
                       : fmt::format("{} of the drives instead of {}", space, format_bytes(now_bytes)),
        changed,
        now_bytes == 0 ? 1 : distance(static_cast<double>(now_bytes), static_cast<double>(changed.budgets.drives)));
  }

  void fewer_checkpoints() {
    if (!request_.checkpoints) return;
    const std::uint64_t most = request_.checkpoints->most_kept;
    const std::uint64_t least = request_.checkpoints->least_kept;
    PlanRequest changed = request_;
    const auto works = [&](std::uint64_t kept) {
      changed.checkpoints->most_kept = kept;
      return could_fit(changed);
    };
    const std::uint64_t now = std::min(most, request_.checkpoints->num_standing + request_.checkpoints->num_to_come);
    if (now <= least) return;
    const auto kept = nearest(now, least, works);
    if (!kept) return;
    changed.checkpoints->most_kept = *kept;
    add("save_total_limit",
        fmt::format("save_total_limit {} instead of {}", *kept,
                    most == kEveryCheckpoint ? "none" : std::to_string(most)),
        changed, distance(static_cast<double>(now), static_cast<double>(*kept)));
  }

  void add(const char* key, std::string text, PlanRequest changed, double how_far) {
    attempts_.push_back({{.key = key, .text = std::move(text), .request = std::move(changed)}, how_far});
  }

  const PlanRequest& request_;
  std::vector<Attempt> attempts_;
};

}  // namespace

std::vector<PlanChange> find_changes(const PlanRequest& request) { return Changes(request).find(); }

}  // namespace sluice
