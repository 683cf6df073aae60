// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "model/adapter_layout.h"
#include "model/slice_layout.h"
#include "plan/plan_json.h"

namespace sluice {
namespace {

constexpr std::size_t kLeastColumns = 39;
constexpr std::size_t kTableColumns = 60;  // minimum width of tables and lane bars; below it, sentences
constexpr std::size_t kLabelColumns = 15;
constexpr std::size_t kMostBarColumns = 40;

std::string as_bytes(double bytes) { return format_bytes(static_cast<std::uint64_t>(std::llround(bytes))); }

// "740 ms", "11.7 s", "148 s", "2 h 53 min", "12 d 4 h"
std::string as_time(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 100) return fmt::format("{:.1f} s", seconds);
  if (seconds < 1000) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<std::int64_t>(std::llround(seconds / 60));
  if (minutes < 60) return fmt::format("{} min", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  return fmt::format("{} d {} h", minutes / 1440, minutes % 1440 / 60);
}

std::string as_number(double value) { return fmt::format("{:.{}f}", value, value < 100 ? 1 : 0); }

std::string bar(double share, std::size_t width) {
  const auto filled = static_cast<std::size_t>(std::llround(std::clamp(share, 0.0, 1.0) * static_cast<double>(width)));
  std::string text;
  for (std::size_t idx = 0; idx < width; ++idx) text += idx < filled ? "█" : "░";
  return text;
}

// Words broken into lines, after a label.
std::string paragraph(std::string_view label, std::string_view text, std::size_t num_columns) {
  std::string out = fmt::format("{:<{}}", label, kLabelColumns);
  std::size_t column = kLabelColumns;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > kLabelColumns && column + 1 + word.size() > num_columns) {
      out += fmt::format("\n{:<{}}", "", kLabelColumns);
      column = kLabelColumns;
    }
    if (column > kLabelColumns) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + "\n";
}

std::string trained_text(const Architecture& arch) {
  if (!arch.adapter.exists()) return "all trained";
  const BaseFormat base = arch.adapter.base;
  return fmt::format("{}an adapter of rank {} with {} trained",
                     base == BaseFormat::kNf4    ? "blocks in NF4, "
                     : base == BaseFormat::kInt8 ? "blocks in int8, "
                                                 : "",
                     arch.adapter.rank, format_count(count_trained_parameters(arch)));
}

std::string count_of(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : what.ends_with("ch") ? "es" : "s");
}

std::string stored_text(std::int64_t num_stored, std::int64_t num_layers) {
  if (num_stored == 0) return "nothing: the backward computes every layer again";
  if (num_stored == num_layers) return "all layers: nothing is computed again";
  return fmt::format("{} of {} layers, the rest is computed again", num_stored, num_layers);
}

class PlanText {
 public:
  PlanText(const Plan& plan, std::size_t num_columns)
      : plan_(plan), num_columns_(std::max(num_columns, kLeastColumns)) {}

  std::string render() {
    head();
    memory();
    schedule();
    lanes();
    outcome();
    return std::move(text_);
  }

 private:
  void line(std::string_view label, const std::string& text) { text_ += paragraph(label, text, num_columns_); }

  void head() {
    const PlanRequest& request = plan_.request;
    line("Model",
         fmt::format("{}, {} parameters, {} in {}", request.model, format_count(count_parameters(request.arch)),
                     trained_text(request.arch), dtype_name(request.dtype)));
    line("Optimizer", std::string(describe(request.optimizer)));
    line("Machine", request.machine.name);
    line("Step", fmt::format("{} x {} tokens, {} accumulated: {} tokens", request.micro_batch_size,
                             request.sequence_len, request.accumulation, request.step_tokens()));
    text_ += '\n';
  }

  static std::string tier_text(std::string_view name, const TierBytes& bytes, std::uint64_t budget_bytes) {
    std::string text = fmt::format("{}: {} of {}", name, format_bytes(bytes.total()), format_bytes(budget_bytes));
    std::string_view separator = ", for ";
    const auto part = [&](std::string_view what, std::uint64_t part_bytes) {
      if (part_bytes == 0) return;
      text += fmt::format("{}{} {}", std::exchange(separator, ", "), what, format_bytes(part_bytes));
    };
    part("weights", bytes.weights);
    part("gradients", bytes.gradients);
    part("optimizer", bytes.optimizer);
    part("activations", bytes.activations);
    part("buffers", bytes.buffers);
    part("checkpoints", bytes.checkpoints);
    return text;
  }

  // A column a tier.
  void memory() {
    const PlanRequest& request = plan_.request;
    struct Tier {
      const char* name;
      const TierBytes& bytes;
      std::uint64_t budget;
    };
    std::vector<Tier> tiers{{"device", plan_.memory.device, request.budgets.device},
                            {"host", plan_.memory.host, request.budgets.host}};
    if (request.budgets.drives > 0) tiers.push_back({"drives", plan_.memory.drives, request.budgets.drives});
    if (num_columns_ < kTableColumns) {
      for (const Tier& tier : tiers)
        line(&tier == tiers.data() ? "Memory" : "", tier_text(tier.name, tier.bytes, tier.budget));
      text_ += '\n';
      return;
    }
    const std::size_t width = std::min((num_columns_ - kLabelColumns) / tiers.size(), std::size_t{24});
    const auto row = [&](std::string_view label, const auto& cell) {
      text_ += fmt::format("{:<{}}", label, kLabelColumns);
      for (const Tier& tier : tiers) text_ += fmt::format("{:>{}}", std::string(cell(tier)), width);
      text_ += '\n';
    };
    const auto bytes_row = [&](std::string_view label, std::uint64_t TierBytes::*part) {
      row(label, [&](const Tier& tier) { return tier.bytes.*part == 0 ? "–" : format_bytes(tier.bytes.*part); });
    };
    row("Memory", [](const Tier& tier) { return tier.name; });
    bytes_row("  weights", &TierBytes::weights);
    bytes_row("  gradients", &TierBytes::gradients);
    bytes_row("  optimizer", &TierBytes::optimizer);
    bytes_row("  activations", &TierBytes::activations);
    bytes_row("  buffers", &TierBytes::buffers);
    if (plan_.memory.drives.checkpoints > 0) bytes_row("  checkpoints", &TierBytes::checkpoints);
    row("  total", [](const Tier& tier) { return format_bytes(tier.bytes.total()); });
    row("  budget", [](const Tier& tier) { return format_bytes(tier.budget); });
    const auto share = [](const Tier& tier) {
      return tier.budget == 0 ? 0 : static_cast<double>(tier.bytes.total()) / static_cast<double>(tier.budget);
    };
    const std::size_t bar_width = width - 8;  // blanks and "100 %"
    row("",
        [&](const Tier& tier) { return fmt::format("{} {:>3.0f} %", bar(share(tier), bar_width), share(tier) * 100); });
    text_ += '\n';
  }

  static std::string where(const std::vector<SliceHomes>& homes, Home SliceHomes::*part) {
    std::string text;
    const auto tell = [&](Home home, std::string_view word) {
      const auto count = std::count_if(homes.begin(), homes.end(), [&](const auto& one) { return one.*part == home; });
      if (count == 0) return;
      const bool all = static_cast<std::size_t>(count) == homes.size();
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", all ? "" : fmt::format("{} ", count), word);
    };
    tell(Home::kDevice, "on the device");
    tell(Home::kHost, "in host memory");
    tell(Home::kNvme, "on the drives");
    return text;
  }

  void schedule() {
    const Schedule& schedule = plan_.schedule;
    const auto accumulation = plan_.request.accumulation;
    line("Schedule",
         fmt::format("{} through {} at a time{}", count_of(static_cast<std::size_t>(schedule.wave), "micro-batch"),
                     count_of(static_cast<std::size_t>(schedule.group), "block"),
                     schedule.wave >= accumulation
                         ? std::string(", the whole step in one wave")
                         : fmt::format(", {} waves a step", div_ceil(static_cast<std::uint64_t>(accumulation),
                                                                     static_cast<std::uint64_t>(schedule.wave)))));
    const auto places = [&](bool away, std::size_t count) {
      return away ? fmt::format("; {} on the device", count_of(count, "place")) : std::string();
    };
    const auto any_away = [&](Home SliceHomes::*part) {
      return std::any_of(schedule.homes.begin(), schedule.homes.end(),
                         [&](const auto& one) { return one.*part != Home::kDevice; });
    };
    line("  weights",
         where(schedule.homes, &SliceHomes::weights) + places(any_away(&SliceHomes::weights), schedule.weight_places));
    line("  gradients", where(schedule.homes, &SliceHomes::gradients) +
                            places(any_away(&SliceHomes::gradients), schedule.gradient_places));
    const bool keeps_nothing =
        plan_.memory.device.optimizer + plan_.memory.host.optimizer + plan_.memory.drives.optimizer == 0;
    line("  optimizer", keeps_nothing ? "keeps nothing" : where(schedule.homes, &SliceHomes::optimizer));
    const bool away = schedule.boundaries != Home::kDevice;
    const std::vector<SliceHomes> one(1, {.weights = schedule.boundaries});
    line("  boundaries", where(one, &SliceHomes::weights) + places(away, schedule.boundary_places));
    line("  stored", stored_text(schedule.stored_layers, plan_.request.arch.num_layers()));
    if (schedule.kept_attention > 0 && away) {
      line("  attention", fmt::format("of the last {} layers waits with their boundaries", schedule.kept_attention));
    }
    text_ += '\n';
  }

  void lanes() {
    const StepForecast& forecast = plan_.forecast;
    if (num_columns_ < kTableColumns) return lanes_without_bars();
    const std::size_t bar_width = std::min(num_columns_ - kLabelColumns - 32, kMostBarColumns);
    text_ += fmt::format("{:<{}}{:>9}  {:<{}}{:>7}{:>12}\n", "Lanes", kLabelColumns, "busy", "", bar_width, "",
                         "waited for");
    for (std::size_t idx = 0; idx < kNumLanes; ++idx) {
      const auto lane = static_cast<Lane>(idx);
      const double busy_s = forecast.load.of(lane);
      const double critical_s = forecast.critical_s[idx];
      text_ += fmt::format("  {:<{}}{:>9}  {} {:>4.0f} %{:>12}\n", name(lane), kLabelColumns - 2,
                           busy_s > 0 ? as_time(busy_s) : "–", bar(busy_s / forecast.step_s, bar_width),
                           busy_s / forecast.step_s * 100, critical_s > 0 ? as_time(critical_s) : "–");
    }
    text_ += '\n';
  }

  void lanes_without_bars() {
    const StepForecast& forecast = plan_.forecast;
    text_ += fmt::format("{:<{}}{:>9}{:>9}\n", "Lanes", kLabelColumns, "busy", "of step");
    for (std::size_t idx = 0; idx < kNumLanes; ++idx) {
      const double busy_s = forecast.load.of(static_cast<Lane>(idx));
      text_ += fmt::format("  {:<{}}{:>9}{:>7.0f} %\n", name(static_cast<Lane>(idx)), kLabelColumns - 2,
                           busy_s > 0 ? as_time(busy_s) : "–", busy_s / forecast.step_s * 100);
    }
    text_ += '\n';
  }

  void outcome() {
    const StepForecast& forecast = plan_.forecast;
    const double share = forecast.critical_s[static_cast<std::size_t>(forecast.bound)] / forecast.step_s;
    line("Step time", fmt::format("{}, {} tokens/s; {} bounds it ({:.0f} % of the time)", as_time(forecast.step_s),
                                  as_number(plan_.tokens_per_s()), name(forecast.bound), share * 100));
    line("Run", fmt::format("{}: {}", count_of(static_cast<std::size_t>(plan_.request.num_steps), "step"),
                            as_time(plan_.run_s())));
    if (plan_.request.budgets.drives == 0) return;
    if (plan_.commits) {
      line("Commits", fmt::format("every {}: {} in {} each, {:.1f} % of the time", as_time(plan_.commits->every_s),
                                  format_bytes(plan_.commits->bytes), as_time(plan_.commits->seconds),
                                  plan_.commits->seconds / plan_.commits->every_s * 100));
    }
    if (forecast.load.drive_written_bytes == 0 && !plan_.commits) {
      line("Drives", "nothing is written to them but checkpoints");
      return;
    }
    for (std::size_t idx = 0; idx < plan_.request.machine.drives.size(); ++idx) {
      const std::optional<double> life = plan_.run_share_of_life(idx);
      line(idx == 0 ? "Drives" : "",
           fmt::format("{}: {} written a step, {} in the run, {}", plan_.request.machine.drives[idx].name,
                       as_bytes(plan_.step_written_bytes(idx)), as_bytes(plan_.run_written_bytes(idx)),
                       life ? fmt::format("{:.2g} % of its life", *life * 100) : "its life is unknown"));
    }
  }

  const Plan& plan_;
  std::size_t num_columns_;
  std::string text_;
};

}  // namespace

std::string render_plan(const Plan& plan, std::size_t num_columns) { return PlanText(plan, num_columns).render(); }

PlanSummary summarize(const Plan& plan) {
  const PlanRequest& request = plan.request;
  PlanSummary summary;
  summary.model =
      fmt::format("{}, {} parameters, {} in {}; {}", request.model, format_count(count_parameters(request.arch)),
                  trained_text(request.arch), dtype_name(request.dtype), describe(request.optimizer));
  const auto tier = [](std::string_view name, const TierBytes& bytes, std::uint64_t budget_bytes) {
    return fmt::format("{} {} of {}", name, format_bytes(bytes.total()), format_bytes(budget_bytes));
  };
  summary.outcome = fmt::format(
      "{} of {} tokens, {} each, {} in all; {}, {}", count_of(static_cast<std::size_t>(request.num_steps), "step"),
      request.step_tokens(), as_time(plan.forecast.step_s), as_time(plan.run_s()),
      tier("device", plan.memory.device, request.budgets.device), tier("host", plan.memory.host, request.budgets.host));
  if (request.budgets.drives > 0) {
    summary.outcome += ", " + tier("drives", plan.memory.drives, request.budgets.drives);
  }
  return summary;
}

std::string render_failure(const NoPlanFits& failure, std::size_t num_columns) {
  return paragraph("Does not fit", failure.what(), std::max(num_columns, kLeastColumns)) +
         render_changes(failure, num_columns);
}

std::string render_changes(const NoPlanFits& failure, std::size_t num_columns) {
  const std::size_t columns = std::max(num_columns, kLeastColumns);
  if (failure.changes().empty()) return paragraph("", "No single change mends this.", columns);
  std::string text;
  for (std::size_t idx = 0; idx < failure.changes().size(); ++idx) {
    text += paragraph(idx == 0 ? "What would do" : "  or", failure.changes()[idx].text, columns);
  }
  return text;
}

}  // namespace sluice
